package openapi

import (
	"maps"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Action describes a route that is no document.
type Action struct {
	What       string // it does
	Parameters string // of the query: `name` or `name=example`, separated by commas
	Body       string
	Answers    string // statuses, each with what it means if that is not clear
}

const (
	groupRoute      = "/v2/" + web.GroupPath
	hookRoute       = groupRoute + "/temporal-action-controller/{hookIntent}"
	workflowRoute   = groupRoute + "/temporal-workflow-intents/{workflowIntent}"
	runAnswers      = "202; 200 and the state that it would lead to for a dry run; 400; 404; 409 the state of the run does not allow it"
	admitAnswer     = "; 403 the operator does not allow it (`workflows`)"
	cancelBody      = "`{\"spec\": {\"reason\": REASON}}`, or none"
	cloudRoute      = "/v2/projects/{project}/logical-clouds/{logicalCloud}"
	clusterRoute    = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}"
	providerCerts   = "/v2/cluster-providers/{clusterProvider}/ca-certs/{caCert}/"
	projectCerts    = "/v2/projects/{project}/ca-certs/{caCert}/"
	viewRoute       = "/v2/views/" + web.GroupPath
	pageQuery       = "`limit`, `continue`, `sort`, `q`"
	historyQuery    = pageQuery + ", `app`, `at=TIME`, `since=TIME`"
	viewAnswers     = "200; 304; 400; 503 the records are still being read"
	actionAnswers   = "202; 200 and the state that it would lead to for a dry run; 400; 404; 409 the state does not allow it"
	networkAnswers  = "204; 200 and the state that it would lead to for a dry run; 400; 404; 409 the state does not allow it"
	stateQuery      = "`reason`, `dryRun=true`"
	tryQuery        = "`dryRun=true`"
	statusQuery     = "`status=ready\\|deployed`, `output=all\\|summary\\|detail`, `app`, `cluster`, `resource`, `apps`, `clusters`, `resources`, `instance`, `watch=true`"
	eventsQuery     = "`since=TIME`, `type=Normal\\|Warning`, `limit`, `continue`, or `follow=true`"
	dryRunQuery     = "`reason`, `dryRun=true`, `output=all\\|summary\\|classes` of a dry run, `force=true`"
	dryRunAnswers   = "202; 200 and the plan for a dry run; 400; 404; 409; 412 the plan of `If-Plan` has changed; 429 too many dry runs; 503 the dry run took too long"
	fourEyesAnswer  = "; 403 the caller has changed it ([four eyes](../operate/identity.md#four-eyes))"
	argumentAnswers = dryRunAnswers + "; 422 the body is no JSON of this form"
)

// Actions returns the routes that are no documents, by method and path template.
func Actions() map[string]Action {
	out := map[string]Action{
		"POST " + groupRoute + "/approve":                                         {"permits the deployment to be instantiated", stateQuery, "", actionAnswers + fourEyesAnswer},
		"POST " + groupRoute + "/instantiate":                                     {"deploys", dryRunQuery, "", dryRunAnswers + fourEyesAnswer},
		"POST " + groupRoute + "/update":                                          {"deploys the current documents; answers the number of the revision", dryRunQuery, "", dryRunAnswers + fourEyesAnswer},
		"POST " + groupRoute + "/rollback":                                        {"deploys the content of an earlier revision again", dryRunQuery, "`{\"metadata\": {\"description\": REASON}, \"spec\": {\"revision\": \"3\"}}`", argumentAnswers},
		"POST " + groupRoute + "/migrate":                                         {"hands the deployment to another group", dryRunQuery, "`{\"metadata\": {\"description\": REASON}, \"spec\": {\"targetCompositeAppVersion\": V, \"targetDeploymentIntentGroup\": G}}`", argumentAnswers},
		"POST " + groupRoute + "/terminate":                                       {"removes the deployment from its clusters", stateQuery + ", `force=true`", "", actionAnswers},
		"POST " + groupRoute + "/stop":                                            {"stops the running action", stateQuery, "", actionAnswers},
		"POST " + groupRoute + "/promote":                                         {"lets the [rollouts](../order.md#waves) of the revision go on after a pause", stateQuery, "`{\"metadata\": {\"description\": REASON}, \"spec\": {\"revision\": 7, \"wave\": 1}}` or `{\"spec\": {\"full\": true}}`; may be empty", actionAnswers + "; 422 the body is no JSON of this form"},
		"GET " + groupRoute + "/status":                                           {"the [status](../status.md)", statusQuery, "", "200; 304; 400; 404"},
		"GET " + groupRoute + "/placement":                                        {"the clusters on which the current documents [place](../placement.md) the apps", "`explain=true`, which adds the clusters that are left out, `app`, `cluster`, `limit`, `continue`", "", "200; 400; 404; 409"},
		"GET " + groupRoute + "/events":                                           {"the event log", eventsQuery, "", "200; 400; 404; 429"},
		"GET " + groupRoute + "/revisions":                                        {"the revisions, newest first", "`limit`, `continue`", "", "200; 400; 404"},
		"GET " + groupRoute + "/revisions/{revision}":                             {"one revision with its placements", "", "", "200; 400; 404"},
		"GET /v2/projects/{project}/usage":                                        {"what the project uses of its [quotas](../operate/policies.md#quotas)", "", "", "200; 400; 404; 503 the records are still being counted"},
		"POST " + cloudRoute + "/update":                                          {"prepares the clusters again, from the current documents; nothing for level 0, or while it is not instantiated", stateQuery, "", actionAnswers},
		"GET " + cloudRoute + "/cluster-references/{clusterReference}/kubeconfig": {"a kubeconfig for the user of a cloud of level 1, with a new certificate; empty for a cluster that pulls", "`valid=720h`, the life of the certificate", "", "200; 400; 404; 409 the cloud is not instantiated; 503 the cluster does not sign"},
		"POST " + cloudRoute + "/instantiate":                                     {"prepares the clusters of a cloud of level 1; permits deployments to use the logical cloud", stateQuery, "", actionAnswers},
		"POST " + cloudRoute + "/terminate":                                       {"ends the use of the logical cloud", stateQuery, "", actionAnswers},
		"POST " + cloudRoute + "/stop":                                            {"stops the running action", stateQuery, "", strings.Replace(actionAnswers, "202; 200 and", "200; 200 and", 1)},
		"GET " + cloudRoute + "/status":                                           {"the [status](../status.md)", strings.Replace(statusQuery, "`app`, ", "", 1), "", "200; 304; 400; 404"},
		"GET " + cloudRoute + "/events":                                           {"the event log", eventsQuery, "", "200; 400; 404; 429"},
		"POST " + clusterRoute + "/apply":                                         {"brings the [networks](../networks.md) to the cluster; nothing if they are applied", stateQuery, "", networkAnswers},
		"POST " + clusterRoute + "/terminate":                                     {"removes the networks from the cluster", stateQuery, "", networkAnswers},
		"POST " + clusterRoute + "/stop":                                          {"stops the running action", stateQuery, "", networkAnswers},
		"GET " + clusterRoute + "/status":                                         {"the [status](../status.md) of the networks", strings.Replace(statusQuery, "`apps`, `clusters`, `resources`, ", "", 1), "", "200; 304; 400; 404"},
		"POST " + clusterRoute + "/move":                                          {"[moves](../operate/README.md#moving-clusters) the cluster to another place in Git", tryQuery, "`{\"gitOpsType\": …, \"gitOpsRefMode\": …, \"gitOpsShard\": …}` or `{\"finish\": true}`, `{\"abort\": true}`", "200 nothing had to move; 202; 400; 404; 409; 422"},
		"GET " + clusterRoute + "/move":                                           {"the progress of the last move", "", "", "200; 404"},
		"GET " + clusterRoute + "/monitor":                                        {"the cluster's [monitor](../monitor.md)", "", "", "200; 404"},
		"POST " + clusterRoute + "/monitor/report":                                {"a monitor's report; needs the cluster's token", "", "the report, gzip", "204; 400; 401; 403 the report is of another cluster; 409 it is older than the last one; 412 it refers to content that is not stored; 413; 415; 422; 429; 503 with `Retry-After`"},
		"POST " + clusterRoute + "/monitor/token":                                 {"makes a token for the monitor; only this answer shows it", "`overlap=10m`, " + tryQuery, "", "201; 404; 409"},
		"GET " + clusterRoute + "/monitor/token":                                  {"the tokens, without their secrets", "", "", "200; 404"},
		"DELETE " + clusterRoute + "/monitor/token":                               {"revokes tokens", "`id`, " + tryQuery, "", "204; 404"},
		"POST /v2/webhooks/git":                                                   {"a Git server's notice of a push: reads reports at once", tryQuery, "the server's own", "202; 400; 401; 403 no secret is configured; 413"},
		"POST " + hookRoute + "/retry":                                            {"runs a failed or canceled hook again", tryQuery, "", runAnswers + admitAnswer},
		"POST " + hookRoute + "/skip":                                             {"goes on without a hook that waits, failed or was canceled", tryQuery, "", runAnswers},
		"POST " + hookRoute + "/abort":                                            {"ends the action that waits for the hook; what runs on clusters stays", tryQuery, "", runAnswers},
		"POST " + hookRoute + "/cancel":                                           {"cancels a run of the hook", tryQuery, cancelBody, runAnswers + "; 422"},
		"GET " + hookRoute + "/status":                                            {"the last run of a [hook](../hooks.md)", "", "", "200; 400; 404"},
		"POST " + workflowRoute + "/start":                                        {"starts a workflow", tryQuery, "", runAnswers + admitAnswer},
		"POST " + workflowRoute + "/cancel":                                       {"cancels the run of a workflow", tryQuery, cancelBody, runAnswers + "; 422"},
		"GET " + workflowRoute + "/status":                                        {"the last run of a [workflow](../hooks.md#workflows-that-users-start); a body is ignored", "", "", "200; 400; 404"},
		"GET /v2/git/branches":                                                    {"the branches that EMCO has written", "", "", "200"},
		"POST /v2/git/adopt":                                                      {"accepts what others did to a branch", tryQuery, "`{\"url\": …, \"branch\": …}`", "202; 400; 404; 422"},
		"POST /v2/git/restore":                                                    {"undoes what others did to a branch", tryQuery, "`{\"url\": …, \"branch\": …}`", "202; 400; 403; 404; 409; 422"},

		"POST /v2/policy/agents/{agent}/events": {"delivers an [event](../policy-intents.md); answers what it led to, for each intent that names it", tryQuery, "`{\"id\": …, \"data\": {…}}`", "200; 400; 404; 413; 422"},
		"GET /v2/health":                        {"whether the program answers; open to everybody. [Operating](../operate/README.md#health-and-metrics) has better ones", "", "", "200"},

		"POST /v2/tokens":           {"makes an API token; only this answer shows it", tryQuery, "`{\"metadata\": {\"name\": …}, \"spec\": {\"role\": …, \"place\": \"projects/shop\", \"expires\": TIME}}`", "201; 400; 403 it would give more than its maker has; 409; 422"},
		"GET /v2/tokens":            {"the API tokens, without their secrets", "", "", "200; 400"},
		"DELETE /v2/tokens/{token}": {"revokes an API token", tryQuery, "", "204; 400; 404"},
		"GET /v2/auth/issuers":      {"where people sign in; open to everybody", "", "", "200; 400"},
		"GET /v2/auth/login":        {"sends a browser to the page where people [sign in](../operate/identity.md#browsers); open to everybody", "`issuer`, if there are several, `return=/v2/projects`, the path where the browser goes in the end", "", "303; 400; 404 no issuer signs browsers in; 429; 503 the issuer does not answer"},
		"GET /v2/auth/callback":     {"where an issuer sends a browser back to: gives the browser its session", "`state`, `code`, `iss`, `error`", "", "200; 401 the sign-in is refused; 403 the names of the groups do not fit into a cookie; 404 no issuer signs browsers in; 429; 503 the issuer does not answer"},
		"POST /v2/auth/logout":      {"ends the session of the browser", "`everywhere=true`, which ends all sessions of the person, `provider=true`, which asks where the browser also signs out at the issuer, `dryRun=true`", "", "204; 200 with `provider=true` and such a page; 400; 401 `everywhere` without a session; 404 no issuer signs browsers in; 429; 503"},
		"POST /v2/auth/backchannel-logout": {
			"where an issuer reports that people [signed out there](../operate/identity.md#signing-out-at-the-provider): ends their sessions; a form with `logout_token`", "", "",
			"200; 400 the report is refused, or failed; 404 no issuer signs browsers in; 429",
		},
		"GET /v2/auth/whoami":   {"who the server takes the caller for", "", "", "200; 400"},
		"POST /v2/auth/can-i":   {"whether the caller may do something, and why", tryQuery, "`{\"method\": \"PUT\", \"path\": \"/v2/projects/shop\"}` or `{\"verb\": \"update\", \"type\": \"projects\", \"place\": \"projects/shop\"}`", "200; 400; 404 there is no such route; 422"},
		"POST /v2/auth/who-can": {"the subjects that may do something", tryQuery, "as of can-i", "200; 400; 403 the caller may not list bindings there; 404; 422"},

		"GET /v2/audit":        {"a page of the [audit log](../operate/audit.md), newest first: the lines of places whose log the caller may read", "`since=TIME`, `until=TIME`, `subject`, `project`, `path`, `phase`, `request`, `limit`, `continue`", "", "200; 400"},
		"GET /v2/audit/export": {"all lines of the [audit log](../operate/audit.md), in a form that can be verified", "", "", "200; 400; 429"},

		"GET /v2/views/doctor":                                        {"contradictions between documents, heads and owners of work, as `emcoctl doctor` shows them", "", "", "200; 400; 429 another check runs"},
		"GET /v2/views/doctor/branches":                               {"files on Git branches that belong to no deployment; a request reads five branches", "`continue`", "", "200; 400; 429 another check runs"},
		"GET /v2/views/fleet":                                         {"counts of clusters and pairs, and a letter per cluster", "`by=provider`, `state`, `provider`, `label`, `app`, `q`", "", viewAnswers},
		"GET /v2/views/fleet/nth":                                     {"the cluster of a letter of the fleet", "`by`, `state`, `provider`, `label`, `app`, `q`, `group`, `i`", "", viewAnswers + "; 404"},
		"GET /v2/views/clusters":                                      {"a page of clusters", pageQuery + ", `provider`, `label`, `state`", "", viewAnswers},
		"GET /v2/views/clusters/{clusterProvider}/{cluster}":          {"one cluster, and all apps on it", "", "", viewAnswers + "; 404"},
		"GET /v2/views/clusters/{clusterProvider}/{cluster}/history":  {"a page of what a cluster [held](../views.md#history-of-clusters), the newest first", historyQuery, "", viewAnswers + "; 404"},
		"GET /v2/views/deployments":                                   {"a page of deployment intent groups", pageQuery + ", `project`, `state`", "", viewAnswers},
		"GET " + viewRoute + "/matrix":                                {"a page of a deployment's clusters, with a letter per app", pageQuery + ", `app`, `state`", "", viewAnswers + "; 404"},
		"GET " + viewRoute + "/placement":                             {"where the current documents place the apps, and where not, with reasons", pageQuery + ", `app`, `verdict=in`", "", viewAnswers + "; 404"},
		"GET " + viewRoute + "/history":                               {"a page of what clusters [held](../views.md#history-of-clusters) of a deployment, the newest first", historyQuery + ", `cluster`", "", viewAnswers + "; 404"},
		"GET " + viewRoute + "/plans/{plan}/classes/{class}/clusters": {"a page of the clusters of a class of a [plan](../views.md#plans)", "`limit`, `continue`", "", "200; 400; 404"},
		"GET " + viewRoute + "/plans/{plan}/classes/{class}/diff":     {"the differences of the objects of a class of a [plan](../views.md#plans), as text", "`object`", "", "200; 400; 404"},
		"GET /v2/views/events":                                        {"a page of the events of all deployments", pageQuery + ", `before=TIME`, `after=TIME`, `actor`, `type=action`, `project`, `cluster`, `app`", "", viewAnswers},
		"GET /v2/views/git":                                           {"a page of the branches that EMCO writes", pageQuery + ", `state`", "", "200; 304; 400"},
		"GET /v2/views/git/{lane}/commits":                            {"a page of the newest commits of a branch, with the revisions that they carried", pageQuery, "", viewAnswers + "; 404; 429 the budget of the Git server is used up"},
		"GET /v2/views/search":                                        {"commits by the beginning of their names; clusters, labels, deployments and apps by a part of them; what the number of a folder in Git belongs to", "`q`", "", viewAnswers},
		"GET /v2/views/stream":                                        {"server-sent events about what has changed", "`topics=fleet`", "", "200; 400; 404; 429; 503"},
	}
	for _, root := range []string{providerCerts, projectCerts} {
		maps.Copy(out, certificateStages(root))
	}
	return out
}

// certificateStages returns the routes of the two stages of certificate authorities.
func certificateStages(root string) map[string]Action {
	status := strings.Replace(statusQuery, "`app`, ", "", 1)
	return map[string]Action{
		"POST " + root + "enrollment/instantiate":   {"has the issuer sign a certificate for each cluster", stateQuery, "", actionAnswers},
		"POST " + root + "enrollment/update":        {"has the issuer sign what is new, has changed or ends soon", stateQuery, "", actionAnswers},
		"POST " + root + "enrollment/terminate":     {"removes the requests from the issuing cluster", stateQuery, "", actionAnswers},
		"GET " + root + "enrollment/status":         {"the [status](../status.md) of the requests", status, "", "200; 304; 400; 404"},
		"POST " + root + "distribution/instantiate": {"gives each cluster its certificate with the key, and an issuer that signs with it", stateQuery, "", actionAnswers},
		"POST " + root + "distribution/update":      {"gives clusters what the enrollment has now", stateQuery, "", actionAnswers},
		"POST " + root + "distribution/terminate":   {"removes certificates, keys and issuers from the clusters", stateQuery, "", actionAnswers},
		"GET " + root + "distribution/status":       {"the [status](../status.md) of what clusters have", status, "", "200; 304; 400; 404"},
	}
}
