#!/bin/sh
# Builds one program for a release: build.sh PROGRAM FILE
#
# VERSION and COMMIT name the build; GOOS and GOARCH choose the platform. Equal sources give equal
# bytes, in any folder and with any GOFLAGS. Run it from the top of the repository.
set -eu
module=github.com/emco-orchestrator/emco
out=$PWD/$2
case $1 in
  emco) cd src/emco && set -- ./cmd/emco ;;
  emco-temporal) cd src/emco/temporal && set -- ./cmd/emco-temporal ;;
  emcoctl | monitor | simfleet) cd "src/$1" && set -- . ;;
  *) echo "build.sh: $1 is not a program: emco, emco-temporal, emcoctl, monitor or simfleet" >&2; exit 2 ;;
esac
# Without the workspace, a build needs only the sums of its module. Flags of the compiler are those of the Makefile, so
# both share the build cache.
GOFLAGS= GOWORK=off CGO_ENABLED=0 exec go build -trimpath -gcflags=all=-dwarf=false -buildvcs=false \
  -ldflags "-s -w -buildid= -X $module/src/api/version.release=${VERSION:-} -X $module/src/api/version.commit=${COMMIT:-}" \
  -o "$out" "$1"
