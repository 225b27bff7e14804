#!/usr/bin/env bash
# Runs cases of the acceptance list of several services with identity, by their numbers.
#
#   run.sh                 list the cases: one line for each set of tests
#   run.sh S-17 S-11       run these cases
#   run.sh all             run all cases
#
# The exit code is that of the tests. docs/reliability.md says how much of each case its tests show. A lane "test"
# is `make test`; other lanes are those of ../run.sh, which runs the programs in ../../../bin (make build), or those
# in $EMCO_BIN.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null

# cases: number | lane | folder of the packages | prefixes of tests | what they show
cases="
S-01 | test      | src/emco/internal/store/...     | Test | the contract of all stores, on SQLite, three members of etcd, and a model of the driver for MongoDB
S-01 | mongo     | scripts/e2e                     | TestMongoContract | the contract on FerretDB
S-02 | test      | src/emco/internal/app           | TestF22ASecondDataFolder TestF10LostDocuments TestTwoFoldersShareDocuments | stores that do not belong together are refused
S-03 | services  | scripts/e2e                     | TestS03 | three processes without a common disk give the same bytes
S-04 | services  | scripts/e2e                     | TestReplicasWithSeparateFolders | one process takes a large package in and is killed, another delivers it
S-05 | machines  | scripts/e2e                     | TestS05 | three processes on three members of etcd: kills, pauses, partitions, slow and full disks; documents are linearizable, updates come once, the audit log is whole
S-05 | services  | scripts/e2e                     | TestReplicasShareWork TestAMoveIsFinished | processes that are killed or paused are replaced
S-05 | git       | scripts/e2e                     | TestFaultsAtOnce | faults of all kinds at once, on one process
S-05 | test      | src/emco/internal/appcontext    | TestHeadsAreLinearizable TestH34 | concurrent steps have one order; the leader of etcd is paused and killed
S-06 | test      | src/emco/internal/app           | TestDeliveriesSpendASharedBudget | deliveries of two processes spend one limit
S-06 | test      | src/git/budget                  | TestProcessesShareALimit TestTheServersTimeHolds | one limit, and no call before Retry-After
S-06 | test      | src/emco/internal/appcontext/spend | Test | the limit in etcd
S-07 | sources   | scripts/e2e                     | TestS07 | three processes read 300 status repositories as often as one does, and replace each other
S-07 | test      | src/emco/internal/status/gitstatus | TestS07 TestAWebhookReaches | the reads are counted with 24 repositories; a webhook calls any process
S-07 | test      | src/emco/internal/status/agentreports | TestReportsFromGit TestEachProcess | each report counts once, and each process answers the same
S-08 | test      | src/emco/internal/app           | TestMixedVersions TestAnOlderProgram TestTheOlderProgram | two levels of stored data side by side, before and after the raise
S-08 | test      | src/emco/internal/appcontext/shards | TestTheLevel TestProcessesWithoutALevel TestALevel TestAProcessBelow TestAnOperator | who raises the level, and who refuses
S-08 | upgrade   | scripts/e2e                     | TestS08 | three processes are replaced by a later release with a feature that needs level 3, under load; the way back, and its end
S-09 | rolling   | scripts/e2e                     | TestReplicasRestart | three processes restart in turn behind a load balancer, three times, at 200 requests per second with open streams
S-10 | identity  | scripts/e2e                     | TestS10 | an address that others reach needs a decision
S-11 | identity  | scripts/e2e                     | TestS11 | people, programs of CI and robots sign in and do what their roles allow
S-11 | test      | src/emco/internal/app           | TestEveryRouteNeeds TestQuestionsAbout TestCertificatesWithIdentity | each route needs a permission
S-12 | test      | src/emco/internal/authn/oidc    | Test | forged tokens, unknown keys, outages of a provider
S-13 | test      | src/emco/internal/authn/oidc    | TestClocksMayDiffer | tokens, when clocks differ
S-13 | test      | src/emco/internal/store         | TestNoPromiseHangsOnClocks | documents, in all orders of two writers
S-13 | faults    | scripts/e2e                     | TestS13 | three processes, one of them with a clock that jumps by ten minutes: revocations, changes at once, the audit log, deliveries
S-13 | test      | src/emco/internal/appcontext/shards | TestProcessesCompare TestADifference | processes report how far their clocks are apart
S-13 | faults    | scripts/e2e                     | TestClockJumps | leases and deliveries of one process whose clock jumps by a day
S-14 | test      | src/emco/internal/app           | TestProjectsAreApart TestViewsAreConfined | what belongs to others looks as if it did not exist
S-15 | test      | src/emco/internal/authz         | Test | nobody gives more than it has
S-15 | test      | src/emco/internal/access/grants | Test | the bootstrap token ends for good
S-15 | test      | src/emco/internal/app           | TestTheBootstrapToken TestAPITokens TestATokenInherits TestATokensName | the same through the API
S-16 | identity  | scripts/e2e                     | TestS16 | no spelling of a path passes unchecked
S-17 | identity  | scripts/e2e                     | TestS17 | what is revoked under load is refused by all processes
S-17 | test      | src/emco/internal/app           | TestS17 | open streams end; a project of the same name inherits nothing
S-18 | identity  | scripts/e2e                     | TestS18 | web pages and headers are not believed
S-18 | test      | src/emco/internal/app           | TestF60 | the same without identity
S-19 | test      | src/emco/internal/app           | TestWithoutTheAuditLog | without the audit log nothing changes, and reading goes on
S-19 | test      | src/emco/internal/auditlog      | TestAnUnwritableLog TestWithoutAStream TestARefusedRequest | the log refuses, and leaves no half of a pair of lines
S-20 | test      | src/api/audit                   | Test | what verify finds in exported lines
S-20 | test      | src/emco/internal/auditlog      | TestChangesInEtcd TestASpoilt TestALostStream | what it finds in etcd
S-21 | identity  | scripts/e2e                     | TestS21 | planted secrets are in nothing that the program writes
S-21 | clusters  | scripts/e2e                     | TestAcceptance6 | planted secrets are in no log, answer, error or Git object
S-22 | test      | src/emco/internal/store/keyring | TestS22 | keys are replaced while it serves, with kills at each write
S-22 | test      | src/emco/internal/app           | TestF70ValuesAreSealed TestKeysWithoutAProcess | the same by command
S-23 | test      | src/emco/internal/app           | TestABackupOfARunning TestADamagedBackup TestDoctorCompares | a backup under load goes on elsewhere; a damaged one is refused
S-24 | clusters  | scripts/e2e                     | TestControlPlaneChart | a real API server takes the chart in a restricted namespace
S-24 | test      | src/emco/internal/render/helm     | TestTheControlPlanesParts | the third of its shapes is what the chart renders to
S-25 | test      | scripts/release/image           | TestBuildIsReproducible | two builds of an image are equal
S-25 | images    | scripts/e2e                     | TestImages | the images start with their users and restrictions, in Podman if it is installed
S-26 | test      | scripts/rules                   | TestF55 | rules and dashboards parse with Prometheus's own parsers, and each alert fires when it must
S-26 | test      | src/emco/internal/app           | TestF55 | each metric that they name exists; the metrics pass Prometheus's checks
S-27 | docs      | scripts/e2e                     | TestF35ThreeMachines | three processes on three members of etcd, with certificates on both sides
S-27 | test      | src/emco/internal/tlsfiles      | TestFilesOfClients TestRenewedClientCertificates | files that do not fit are refused; renewed ones are used
S-27 | test      | src/emco/internal/app           | TestS27 | etcd with TLS and a role for the prefix; wrong authorities, expired certificates, users without the role
S-28 | mongo     | scripts/e2e                     | TestS28 | documents away: 503 with Retry-After, deliveries go on, and ready soon after their return
S-28 | test      | src/emco/internal/svc/rsync     | TestS28 | deliveries go on with what the process knows, and a replaced credential is used when the documents answer
S-28 | test      | src/emco/internal/route         | TestDeliveriesUse TestNothing TestARouteFromBefore | what is used while the documents are away, and what is not
"

usage() { sed -n '2,10s/^# \{0,1\}//p' run.sh; }

fail() { echo "run.sh: $*" >&2; exit 2; }

chosen=()
for word in "$@"; do
  case $word in
    help | -h | --help) usage; exit 0 ;;
    all) mapfile -t -O "${#chosen[@]}" chosen < <(sed -n 's/^\(S-[0-9]*\) .*/\1/p' <<<"$cases" | sort -u) ;;
    *) grep -q "^$word |" <<<"$cases" || fail "no case $word; run.sh lists them"; chosen+=("$word") ;;
  esac
done
if [ ${#chosen[@]} -eq 0 ]; then
  printf '%s\n' "$cases" | sed '/^$/d'
  exit 0
fi

failed=()
for number in "${chosen[@]}"; do
  while IFS='|' read -r _ lane folder tests what; do
    lane=${lane// /} folder=${folder// /} tests=$(xargs <<<"$tests" | tr ' ' '|')
    echo "run.sh: $number, lane $lane:$what"
    case $lane in
      test)
        work= packages=.
        case $folder in
          scripts/*) work=off ;; # modules outside of the workspace
          */...) packages=./... ;;
        esac
        (cd "../../../${folder%/...}" && GOWORK=$work go test -count=1 -timeout 20m -run "^($tests)" "$packages") || failed+=("$number")
        ;;
      *) ../run.sh "$lane" -- -run "^($tests)" || failed+=("$number") ;;
    esac
  done < <(grep "^$number |" <<<"$cases")
done
[ ${#failed[@]} -eq 0 ] || { echo "run.sh: failed: ${failed[*]}" >&2; exit 1; }
