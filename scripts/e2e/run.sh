#!/usr/bin/env bash
# Runs the acceptance tests on real Kubernetes API servers, real Flux and real Git.
#
#   run.sh            all of them, and the examples
#   run.sh 3          one point of the list, 1 to 6
#   run.sh monitor    clusters that report: monitors, Flux and Git
#   run.sh gitea      the host of Git's protocol on a real Gitea
#   run.sh argocd     Argo CD's controllers read what is written for them: not part of all of them, it takes minutes to build
#   run.sh sweep      every fault at every step, on Git and on a cluster: a quarter of an hour
#   run.sh scale      5,000 clusters x 20 apps: what a change of a large fleet costs, and kill -9 in the
#                     middle of one; EMCO_SCALE=500x20 for less
#   run.sh fleet      clusters that simfleet plays, on a real control plane; EMCO_FLEET=10000 for so many
#   run.sh fleet-https  the same, with reports by HTTPS
#   run.sh bench      figures: 100 and 1,000 Git clusters side by side, a large deployment, a restart
#
# The tests run the programs in ../../bin (make build), or those in $EMCO_BIN; they are
# built if they are not there. What the tests need besides is built from source on the first run and kept in ~/.cache/emco-testbed.
# Everything listens on free ports of 127.0.0.1. More arguments go to go test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null
export GOWORK=off

usage() { sed -n '2,18s/^# \{0,1\}//p' run.sh; }

need() {
  command -v "$1" >/dev/null || { echo "run.sh: $1 is missing: $2" >&2; exit 1; }
}

what=${1:-all}
shift || true
case $what in
  all) run='.' ;;
  [1-6]) run="^TestAcceptance$what" ;;
  monitor) run='^TestMonitor|^TestConformance14' ;;
  gitea) run='^TestGitea' ;;
  argocd) run='^TestArgoCD'; export EMCO_ARGOCD=1 ;;
  sweep) run='^TestFaultSweep'; export EMCO_SWEEP=all ;;
  scale) run='^TestScale$|^TestRestartInTheMiddle'; export EMCO_SCALE=${EMCO_SCALE:-5000x20} ;;
  fleet) run='^TestSimulatedFleet$' ;;
  fleet-https) run='^TestSimulatedFleetByHTTPS$' ;;
  bench) run='' ;;
  help | -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

need go 'install Go 1.26 or later'
need git 'install git, with its http-backend'
need make 'install make'
need tar 'install tar'
[ -x "$(git --exec-path)/git-http-backend" ] || { echo 'run.sh: git-http-backend is missing: install all of git' >&2; exit 1; }

case $what in
  all | gitea) need gcc 'install a C compiler: Gitea has SQLite in it' ;;
esac

bin=${EMCO_BIN:-$(cd ../.. && pwd)/bin}
if [ "$what" = gitea ]; then
  : # takes none of the programs
elif [ ! -x "$bin/emco" ] || [ ! -x "$bin/emcoctl" ] || [ ! -x "$bin/monitor" ] || [ ! -x "$bin/simfleet" ]; then
  echo "run.sh: building emco, emcoctl, monitor and simfleet (some minutes when nothing is cached)"
  env -u GOWORK make -C ../.. build BIN="$bin" # the programs are built by the workspace
fi
export EMCO_BIN=$bin

if [ "$what" = bench ]; then
  exec go test -count=1 -run '^$' -bench 'Fleet|Large|Restart' -benchtime 1x -timeout 10m "$@" .
fi

case $what in
  all) parts='etcd kube kwok flux gitea versitygw registry sops' ;;
  1 | 2 | 3 | 6 | monitor | sweep) parts='etcd kube kwok flux' ;;
  gitea) parts=gitea ;;
  argocd) parts='etcd kube kwok flux argocd' ;;
  *) parts='' ;;
esac
if [ -n "$parts" ]; then
  echo "run.sh: the parts of the test bed: $parts (5 to 25 minutes when nothing is cached)"
  # shellcheck disable=SC2086 # one word each
  (cd ../testbed && go run . build $parts)
fi
echo "run.sh: the tests, with the programs in $bin"
go test -count=1 ./leak ./repo
go test -v -count=1 -timeout 30m -run "$run" "$@" .
