#!/usr/bin/env bash
# Runs EMCO's control plane on a kind cluster: assembles the image, starts the cluster, loads it and
# installs the manifests.
#
#   quickstart.sh             do it
#   quickstart.sh --dry-run   print the commands; kind and Docker need not be there
#   quickstart.sh --delete    delete the cluster
#
# It needs Go, git, kubectl, kind (https://kind.sigs.k8s.io) and the engine that kind uses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cluster=${EMCO_KIND_CLUSTER:-emco}
images=bin/release/images
version=v0.0.0-quickstart
dry=

fail() { echo "quickstart.sh: $*" >&2; exit 1; }

run() {
  printf '+ %s\n' "$*"
  [ -n "$dry" ] || "$@"
}

need() { command -v "$1" >/dev/null || [ -n "$dry" ] || fail "$1 is missing: $2"; }

case ${1-} in
  '') ;;
  --dry-run) dry=1 ;;
  --delete) need kind 'install it from https://kind.sigs.k8s.io'; run kind delete cluster --name "$cluster"; exit ;;
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit ;;
  *) fail "$1 is not an option; --help lists them" ;;
esac

need go 'install Go 1.26 or later'
need kind 'install it from https://kind.sigs.k8s.io, or try the commands with --dry-run'
need kubectl 'install it from https://kubernetes.io/docs/tasks/tools'

run make images VERSION="$version" ONLY=emco
if [ -n "$dry" ] || ! kind get clusters | grep -qx "$cluster"; then
  run kind create cluster --name "$cluster" --wait 2m
fi
run tar -C "$images/emco" -cf "$images/emco.tar" .
run kind load image-archive "$images/emco.tar" --name "$cluster"
run kubectl --context "kind-$cluster" apply --server-side --force-conflicts -f deployments/emco/emco.yaml
run kubectl --context "kind-$cluster" -n emco set image statefulset/emco "emco=emco/emco:$version"
run kubectl --context "kind-$cluster" -n emco rollout status statefulset/emco --timeout 5m
cat <<END

EMCO runs. Reach its API from this machine:
  kubectl --context kind-$cluster -n emco port-forward service/emco 9015:9015
  emcoctl version
END
