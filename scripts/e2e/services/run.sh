#!/usr/bin/env bash
# Runs cases of the acceptance list of several services with identity, by their numbers.
#
#   run.sh                 all cases
#   run.sh S-17 S-11       these cases
#   run.sh cases           list the cases: which tests each runs
#
# The exit code is that of the tests. Cases of "e2e" run the programs in ../../../bin (make build), or those in
# $EMCO_BIN; the lane identity of ../run.sh runs them as well. The others run packages of the control plane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null

# cases: number | package below src/emco/internal, or e2e | tests | what it shows
cases="
S-10 | e2e              | TestS10 | an address that others reach needs a decision
S-11 | e2e              | TestS11 | people, programs of CI and robots sign in and do what their roles allow
S-11 | app              | TestEveryRouteNeedsAPermission TestQuestionsAboutPermissions TestCertificatesWithIdentity | each route needs a permission
S-12 | authn/oidc       | Test    | forged tokens, unknown keys, outages of a provider
S-14 | app              | TestProjectsAreApart TestViewsAreConfined | what belongs to others looks as if it did not exist
S-15 | authz            | Test    | nobody gives more than it has
S-15 | access/grants    | Test    | the bootstrap token ends for good
S-15 | app              | TestTheBootstrapTokenEndsForGood TestAPITokens | the same through the API
S-16 | e2e              | TestS16 | no spelling of a path passes unchecked
S-17 | e2e              | TestS17 | what is revoked under load is refused by all processes
S-17 | app              | TestS17 | open streams end; a project of the same name inherits nothing
S-18 | e2e              | TestS18 | web pages and headers are not believed
S-18 | app              | TestF60 | the same without identity
"

usage() { sed -n '2,9s/^# \{0,1\}//p' run.sh; }

fail() { echo "run.sh: $*" >&2; exit 2; }

chosen=()
for word in "$@"; do
  case $word in
    help | -h | --help) usage; exit 0 ;;
    cases) printf '%s\n' "$cases" | sed '/^$/d'; exit 0 ;;
    *) grep -q "^$word |" <<<"$cases" || fail "no case $word; run.sh cases lists them"; chosen+=("$word") ;;
  esac
done
[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen < <(sed -n 's/^\(S-[0-9]*\) .*/\1/p' <<<"$cases" | sort -u)

failed=()
for number in "${chosen[@]}"; do
  while IFS='|' read -r _ package tests what; do
    package=${package// /} tests=$(xargs <<<"$tests" | tr ' ' '|')
    echo "run.sh: $number:$what"
    if [ "$package" = e2e ]; then
      (cd .. && GOWORK=off go test -count=1 -timeout 10m -run "^($tests)" .) || failed+=("$number")
    else
      (cd "../../../src/emco/internal/$package" && go test -count=1 -timeout 20m -run "^($tests)" .) || failed+=("$number")
    fi
  done < <(grep "^$number |" <<<"$cases")
done
[ ${#failed[@]} -eq 0 ] || { echo "run.sh: failed: ${failed[*]}" >&2; exit 1; }
