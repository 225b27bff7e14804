#!/usr/bin/env bash
# Runs the end-to-end tests on real Kubernetes API servers, real Flux and real Git.
#
#   run.sh                 the default lanes
#   run.sh full            every lane
#   run.sh LANE...         these lanes
#   run.sh 1               one point of the acceptance list, 1 to 6
#   run.sh bench           figures instead of tests: 100 and 1,000 Git clusters, a large deployment, a restart
#   run.sh lanes           list the lanes: what each needs and which tests it runs
#
# The tests run the programs in ../../bin (make build), or those in $EMCO_BIN. If they
# are missing, this script builds them. The first run builds what a lane needs from source and
# keeps it in ~/.cache/emco-testbed. All servers listen on free ports of 127.0.0.1. Arguments after
# "--" go to go test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null
export GOWORK=off

# lanes: name | default or full | parts of the test bed | tests | variables | what it shows
lanes="
git       | default |                        | TestExampleGitFleet TestTWf TestAcceptance4 TestAcceptance5 TestConformance13 TestTWb TestRestartInTheMiddle TestSimulatedFleet TestFaultsAtOnce | | Git clusters without Kubernetes: writers, restarts, simulated fleets
docs      | default | etcd kube kwok flux    | TestF30 TestF31 TestF32 TestF33 TestF35 | | the commands of README and docs, and the demonstration
services  | default | etcd                   | TestReplicas TestAMoveIsFinished TestS03 | | several processes on one etcd
identity  | default | etcd                   | TestS10 TestS11 TestS16 TestS17 TestS18 TestS21 | | who may do what, over one and several processes; services/run.sh runs single cases
clusters  | default | etcd kube kwok flux    | TestAcceptance1 TestAcceptance2 TestAcceptance3 TestAcceptance6 TestConformance03 TestConformance08 TestConformance12 TestTIA TestClustersOfDifferentTypes TestUpdateAndRollback TestSeveralClusters TestDependencies TestPrivilegedCloud TestPlacementByNeeds TestLogicalCloud TestFluxReadsABranch TestF01 TestF03 TestGenericActions TestTrafficController TestNetworks TestServiceFunctionChains TestCertificateAuthorities TestWorkflowHooks TestPackages TestControlPlaneChart | | direct clusters and Flux on real API servers
monitor   | default | etcd kube kwok flux    | TestMonitor TestConformance14 | | clusters that report their status
images    | default |                        | TestImages TestInstallGuide | | images of the Dockerfiles, assembled without an engine and started, without one and in Podman if it is installed (as root); the commands of docs/install.md
published | default | etcd kube kwok flux versitygw registry sops opa | TestPolicyIntents TestFluxReadsABucket TestFluxReadsAnArtifact TestFluxDecrypts | | buckets, OCI artifacts, encrypted files, and rules of an OPA server
gitea     | default | gitea                  | TestGitea | | the Git host contract on a real Gitea
mongo     | full    | etcd ferretdb          | TestMongo TestS28 | | documents in a server that speaks MongoDB's protocol, also while it is away (three minutes: FerretDB is slow)
sources   | full    | etcd                   | TestS07 | | three processes read 300 status repositories as often as one does (two minutes)
rolling   | full    | etcd                   | TestReplicasRestart | EMCO_ROUNDS=3 | three processes restart in turn, three times, at 200 requests per second with open streams: no request fails
upgrade   | full    | etcd                   | TestS08 | | processes of this release are replaced by a later one, which is built from the sources with a feature of level 3, under load (five minutes)
machines  | full    | etcd                   | TestS05 | EMCO_STORM=10m | three processes on three members of etcd write for ten minutes while machines are killed, paused and cut off, and disks are slow (with strace) and full
temporal  | full    | temporal               | TestTemporal | | workflow hooks on a real Temporal server (a quarter of an hour to build)
argocd    | full    | etcd kube kwok flux argocd | TestArgoCD | EMCO_ARGOCD=1 | Argo CD's controllers (nine minutes of processor time to build)
gateway   | full    | caddy                  | TestF35GatewayPage | EMCO_GATEWAY=1 | docs/guides/gateway.md with Caddy, and with nginx if it is installed
release   | full    |                        | TestRelease | | the archives of all platforms (half an hour of processor time when nothing is cached)
sweep     | full    | etcd kube kwok flux    | TestFaultSweep | EMCO_SWEEP=all | every fault at every step, on Git and on a cluster
scale     | full    |                        | TestScale TestRestartInTheMiddle | EMCO_SCALE=5000x20 | 5,000 clusters x 20 apps, and kill -9 in the middle of a change; EMCO_SCALE=500x20 for less
faults    | full    | etcd                   | TestFaultsAtOnce TestClockJumps TestS13 | EMCO_FAULTS=10000 | 10,000 operations while kills, full and slow disks, partitions, clock jumps and hostile tenants strike at once
soak      | full    |                        | TestSoak | EMCO_SOAK=1h | changes for an hour; memory, files, goroutines and disk space stay flat; EMCO_SOAK=10m for less
fleet     | full    |                        | TestSimulatedFleet | EMCO_FLEET=2000 | 2,000 simulated clusters; EMCO_FLEET=10000 for more
"

usage() { sed -n '2,14s/^# \{0,1\}//p' run.sh; }

fail() { echo "run.sh: $*" >&2; exit 2; }

# lane NAME N prints one column of a lane.
lane() { awk -F '|' -v name="$1" -v n="$2" '{ gsub(/^ +| +$/, "", $1) } $1 == name { gsub(/^ +| +$/, "", $n); print $n }' <<<"$lanes"; }

# lanes_of CLASS prints the names of the lanes of a class.
lanes_of() { awk -F '|' -v class="$1" '{ gsub(/ /, "", $1); gsub(/ /, "", $2) } $2 == class { print $1 }' <<<"$lanes"; }

# all_of N LANE... prints the words of one column of several lanes, each once.
all_of() { local n=$1 l; shift; for l in "$@"; do lane "$l" "$n"; done | tr ' ' '\n' | sed '/^$/d' | sort -u; }

need() { command -v "$1" >/dev/null || fail "$1 is missing: $2"; }

chosen=()
point=
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    help | -h | --help) usage; exit 0 ;;
    lanes) printf '%s\n' "$lanes" | sed '/^$/d'; exit 0 ;;
    bench) chosen+=(bench) ;;
    full) # large lanes run alone: they measure, and fill the machine
      "./run.sh"
      for l in $(lanes_of full); do "./run.sh" "$l"; done
      exit 0 ;;
    [1-6]) point=$1; chosen+=(git clusters) ;;
    *) [ -n "$(lane "$1" 1)" ] || { usage >&2; fail "no lane $1; run.sh lanes lists them"; }; chosen+=("$1") ;;
  esac
  shift
done
[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen < <(lanes_of default)

need go 'install Go 1.26 or later'
need git 'install git, with its http-backend'
need make 'install make'
need tar 'install tar'
[ -x "$(git --exec-path)/git-http-backend" ] || fail 'git-http-backend is missing: install all of git'

bin=${EMCO_BIN:-$(cd ../.. && pwd)/bin}
for program in emco emcoctl monitor simfleet; do
  if [ ! -x "$bin/$program" ]; then
    echo "run.sh: building the programs (some minutes when nothing is cached)"
    env -u GOWORK make -C ../.. build BIN="$bin" # the workspace builds the programs
    break
  fi
done
export EMCO_BIN=$bin

if [ "${chosen[0]}" = bench ]; then
  exec go test -count=1 -run '^$' -bench 'Fleet|Large|Restart' -benchtime 1x -timeout 10m "$@" .
fi

parts=$(all_of 3 "${chosen[@]}" | tr '\n' ' ')
case " $parts" in *' gitea '*) need gcc 'install a C compiler: Gitea contains SQLite' ;; esac
if [ -n "$parts" ]; then
  echo "run.sh: building the parts of the test bed: $parts(5 to 25 minutes when nothing is cached)"
  # shellcheck disable=SC2086 # one word each
  (cd ../testbed && go run . build $parts)
fi
for setting in $(all_of 5 "${chosen[@]}"); do
  name=${setting%%=*}
  export "$name=${!name:-${setting#*=}}"
done
run=$(all_of 4 "${chosen[@]}" | paste -sd '|' -)
[ -z "$point" ] || run=TestAcceptance$point
echo "run.sh: lanes ${chosen[*]}, with the programs in $bin"
go test -count=1 ./leak ./repo ./lanes ./pages ./later
go test -v -count=1 -timeout 2h -run "^($run)" "$@" .
