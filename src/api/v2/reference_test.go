package v2_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

var update = flag.Bool("update", false, "rewrite docs/reference/documents")

// referencePages is where the reference of the documents is.
const referencePages = "../../../docs/reference/documents"

// referenceKind is a kind of document with its place and an example, which the generator changes to find
// the values that the server refuses.
type referenceKind struct {
	document v2.Document
	path     string // below /v2
	file     string // what is uploaded with the document
	example  string
	decode   func(text []byte) (v2.Document, error)
}

func kindOf[T any, P interface {
	*T
	v2.Document
}](path, file, example string) referenceKind {
	return referenceKind{P(new(T)), path, file, example, func(text []byte) (v2.Document, error) {
		doc, err := v2.Decode[T](text, v2.Strict)
		return P(&doc), err
	}}
}

// meta is the metadata of examples.
func meta(name, description string) string {
	return `"metadata": {"name": "` + name + `", "description": "` + description + `", "userData1": "", "userData2": ""}`
}

var referenceKinds = []referenceKind{
	kindOf[v2.Project]("projects", "", `{`+meta("shop", "everything of the shop team")+`}`),
	kindOf[v2.Policy]("projects/{project}/policies", "",
		`{`+meta("walls", "what the stores may run")+`, "spec": {"logicalCloud": "stores", "mode": "strict", "namespaces": ["shop", "shop-*"], "allow": ["host"], "kinds": ["Certificate.cert-manager.io"], "denyKinds": ["Ingress.networking.k8s.io"], "secrets": "refuse",
			"variables": [{"name": "containers", "expression": "object.spec.template.spec.containers"}],
			"validations": [{"name": "images", "kinds": ["Deployment.apps"], "expression": "variables.containers.all(c, c.image.startsWith('registry.example.org/'))", "message": "takes images from elsewhere", "mode": "refuse"}]}}`),
	kindOf[v2.CompositeApp]("projects/{project}/composite-apps", "", `{`+meta("till", "the tills of the stores")+`, "spec": {"compositeAppVersion": "v1"}}`),
	kindOf[v2.App]("projects/{project}/composite-apps/{compositeApp}/{version}/apps", "the Helm chart, as .tgz",
		`{`+meta("web", "what customers see")+`, "spec": {"leaveLast": true, "rollout": {"waves": [{"clusterLabel": "canary"}, {"clusters": 1}, {"percent": 20, "bakeSeconds": 3600, "pause": true}], "bakeSeconds": 600}}}`),
	kindOf[v2.AppDependency]("projects/{project}/composite-apps/{compositeApp}/{version}/apps/{app}/dependency", "",
		`{`+meta("needs-db", "web starts after the database")+`, "spec": {"app": "db", "opStatus": "Ready", "wait": 10}}`),
	kindOf[v2.CompositeProfile]("projects/{project}/composite-apps/{compositeApp}/{version}/composite-profiles", "", `{`+meta("small", "for small stores")+`}`),
	kindOf[v2.AppProfile]("projects/{project}/composite-apps/{compositeApp}/{version}/composite-profiles/{compositeProfile}/profiles", "the profile, as .tar.gz",
		`{`+meta("small-web", "values of web in small stores")+`, "spec": {"app": "web"}}`),
	kindOf[v2.DeploymentIntentGroup]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups", "",
		`{`+meta("autumn", "the autumn release")+`, "spec": {"compositeProfile": "small", "version": "r1", "logicalCloud": "stores", "overrideValues": [{"app": "web", "values": {"replicas": "2"}}]}}`),
	kindOf[v2.GroupIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/intents", "",
		`{`+meta("intents", "what places the apps")+`, "spec": {"intent": {"genericPlacementIntent": "placement"}}}`),
	kindOf[v2.PlacementIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/generic-placement-intents", "",
		`{`+meta("placement", "where the apps go")+`}`),
	kindOf[v2.AppIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/generic-placement-intents/{genericPlacementIntent}/app-intents", "",
		`{`+meta("web-everywhere", "web goes to one store, and to one of two others")+`, "spec": {"app": "web", "intent": {
		"allOf": [{"clusterProvider": "edge", "cluster": "store-1"}, {"anyOf": [{"clusterProvider": "edge", "clusterLabel": "flagship"}]}],
		"anyOf": [{"clusterProvider": "edge", "cluster": "store-2"}, {"clusterProvider": "edge", "clusterLabel": "new"}, {"clusterProvider": "edge", "clusterLabels": ["small", "coastal"]}],
		"choose": {"count": 2, "spreadBy": "region", "prefer": [{"by": "cost", "weight": 2}, {"by": "distance", "latitude": 52.5, "longitude": 13.4}, {"by": "fact", "fact": "latency", "order": "lowest"}]}}}}`),
	kindOf[v2.GenericK8sIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/generic-k8s-intents", "",
		`{`+meta("settings", "what differs by store")+`}`),
	kindOf[v2.GenericResource]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/generic-k8s-intents/{genericK8sIntent}/resources", "the new object, unless it is a ConfigMap, a Secret or a rendered object",
		`{`+meta("web", "the Deployment of the chart")+`, "spec": {"app": "web", "newObject": "false", "resourceGVK": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "r1-web"}}}`),
	kindOf[v2.Customization]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/generic-k8s-intents/{genericK8sIntent}/resources/{genericResource}/customizations", "data of a ConfigMap or Secret, or patches, in parts \"files\"",
		`{`+meta("large", "large stores get more")+`, "spec": {"clusterSpecific": "true", "clusterInfo": {"scope": "label", "clusterProvider": "edge", "cluster": "", "clusterLabel": "large", "mode": "allow"},
		"patchType": "json", "patchJson": [{"op": "copy", "from": "/spec/replicas", "path": "/spec/revisionHistoryLimit", "value": null}, {"op": "replace", "path": "/spec/replicas", "value": 3}],
		"configMapOptions": {"dataKeyOptions": [{"fileName": "app.conf", "keyName": "conf", "mergePatch": "false"}]}, "secretOptions": {"dataKeyOptions": [{"fileName": "token", "keyName": "token", "mergePatch": "false"}]}}}`),
	kindOf[v2.TrafficGroupIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/traffic-group-intents", "",
		`{`+meta("traffic", "what may reach the services")+`}`),
	kindOf[v2.InboundServer]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/traffic-group-intents/{trafficGroupIntent}/inbound-intents", "",
		`{`+meta("web", "the service of the tills")+`, "spec": {"app": "web", "appLabel": "app=web", "serviceName": "r1-web", "externalName": "till.example.org", "port": 8080, "protocol": "HTTP",
		"externalSupport": true, "serviceMesh": "istio", "edgeCNF": "edge", "management": {"sidecarProxy": "yes", "tlsType": "MUTUAL"},
		"external": {"externalCerts": {"serviceCertificate": "-----BEGIN CERTIFICATE-----…", "servicePrivateKey": "-----BEGIN PRIVATE KEY-----…", "caCertificate": ""}}}}`),
	kindOf[v2.InboundClient]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/traffic-group-intents/{trafficGroupIntent}/inbound-intents/{inboundServerIntent}/clients", "",
		`{`+meta("cache", "the cache reads from the tills")+`, "spec": {"app": "cache", "appLabel": "app=cache", "serviceName": "r1-cache", "namespaces": ["shop"], "cidrs": ["10.1.0.0/16"]}}`),
	kindOf[v2.AccessPoint]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/traffic-group-intents/{trafficGroupIntent}/inbound-intents/{inboundServerIntent}/clients/{inboundClientsIntent}/access-points", "",
		`{`+meta("read", "only reads")+`, "spec": {"action": "ALLOW", "url": ["/items", "/items/*"], "access": ["GET"]}}`),
	kindOf[v2.Network]("cluster-providers/{clusterProvider}/clusters/{cluster}/networks", "",
		`{`+meta("tills", "what the tills speak over")+`, "spec": {"cniType": "ovn4nfv", "ipv4Subnets": [{"name": "v4", "subnet": "10.20.0.0/24", "gateway": "10.20.0.1/24", "excludeIps": "10.20.0.2 10.20.0.5..10.20.0.9"}], "ipv6Subnets": [{"name": "v6", "subnet": "fd00:20::/64"}]}}`),
	kindOf[v2.ProviderNetwork]("cluster-providers/{clusterProvider}/clusters/{cluster}/provider-networks", "",
		`{`+meta("branch", "the network of the branch")+`, "spec": {"cniType": "ovn4nfv", "ipv4Subnets": [{"name": "v4", "subnet": "192.0.2.0/24", "gateway": "192.0.2.1/24"}], "providerNetType": "VLAN", "vlan": {"vlanID": "100", "providerInterfaceName": "eth1", "logicalInterfaceName": "eth1.100", "vlanNodeSelector": "specific", "nodeLabelList": ["zone=a"]}}}`),
	kindOf[v2.NetControllerIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-controller-intent", "", `{`+meta("networks", "networks of the shop")+`}`),
	kindOf[v2.WorkloadIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-controller-intent/{netControllerIntent}/workload-intents", "",
		`{`+meta("web", "the pods of web")+`, "spec": {"app": "web", "workloadResource": "r1-web", "type": "Deployment"}}`),
	kindOf[v2.InterfaceIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-controller-intent/{netControllerIntent}/workload-intents/{workloadIntent}/interfaces", "",
		`{`+meta("tills", "to the tills")+`, "spec": {"interface": "net0", "name": "tills", "defaultGateway": "false", "ipAddress": "10.20.0.7", "macAddress": "02:00:00:00:00:01"}}`),
	kindOf[v2.HPAIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/hpa-intents", "", `{`+meta("web", "what web needs")+`, "spec": {"app": "web"}}`),
	kindOf[v2.HPAConsumer]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/hpa-intents/{hpaIntent}/hpa-resource-consumers", "",
		`{`+meta("web", "the Deployment of web")+`, "spec": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "r1-web", "replicas": 2, "container": "nginx"}}`),
	kindOf[v2.HPAResource]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/hpa-intents/{hpaIntent}/hpa-resource-consumers/{hpaConsumer}/resource-requirements", "",
		`{`+meta("memory", "room for both pods")+`, "spec": {"allocatable": true, "mandatory": true, "weight": 1, "resource": {"name": "memory", "requests": 512, "limits": 1024, "units": "Mi", "key": "", "value": ""}}}`),
	kindOf[v2.NetworkChain]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-chains", "",
		`{`+meta("inspect", "what customers send goes through the firewall and the filter")+`, "spec": {"chainType": "Routing", "namespace": "shop"}}`),
	kindOf[v2.ChainLink]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-chains/{sfcIntent}/links", "",
		`{`+meta("firewall", "the first link")+`, "spec": {"leftNet": "left-net", "rightNet": "middle-net", "linkLabel": "chain=firewall", "app": "firewall", "workloadResource": "r1-firewall", "resourceType": "Deployment"}}`),
	kindOf[v2.ChainClientSelector]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-chains/{sfcIntent}/client-selectors", "",
		`{`+meta("tills", "pods of the tills")+`, "spec": {"chainEnd": "left", "podSelector": {"matchLabels": {"chain": "left"}}, "namespaceSelector": {"matchLabels": {"team": "shop"}, "matchExpressions": [{"key": "stage", "operator": "In", "values": ["prod"]}]}}}`),
	kindOf[v2.ChainProviderNetwork]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/network-chains/{sfcIntent}/provider-networks", "",
		`{`+meta("stores", "the network of the stores")+`, "spec": {"chainEnd": "left", "providerNetwork": "left-provider", "gatewayIp": "172.30.10.2", "subnet": "172.30.10.0/24"}}`),
	kindOf[v2.ChainClient]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/sfc-clients", "",
		`{`+meta("tills", "the tills send through the chain")+`, "spec": {"chainEnd": "left", "sfcIntent": "inspect", "compositeApp": "network", "compositeAppVersion": "v1", "deploymentIntentGroup": "functions", "app": "web", "workloadResource": "r1-web", "resourceType": "Deployment"}}`),
	kindOf[v2.OwnResource]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/firewalls", "",
		`{`+meta("outer", "what reaches the tills")+`, "spec": {"mode": "closed", "except": [{"app": "web"}]}}`),
	kindOf[v2.HookIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/temporal-action-controller", "",
		`{`+meta("backup", "the database, before each update")+`, "spec": {"hookType": "post-update", "after": "ready", "runner": "http", "workflowClient": {"scheme": "http", "clientEndpointName": "workflows.example.org", "clientEndpointPort": 9090},
		"temporal": {"workflowClientName": "backup", "workflowStartOptions": {"ID": "backup-till", "TaskQueue": "backups", "WorkflowExecutionTimeout": 600000000000, "WorkflowRunTimeout": 60000000000, "WorkflowTaskTimeout": 10000000000, "RetryPolicy": {"InitialInterval": 1000000000, "BackoffCoefficient": 2, "MaximumInterval": 60000000000, "MaximumAttempts": 5, "NonRetryableErrorTypes": ["missing"]}}, "workflowParams": {"activityParams": {"dump": {"database": "till"}}}}, "command": "", "timeoutSeconds": 600}}`),
	kindOf[v2.WorkerIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/temporal-action-controller/{hookIntent}/workers", "",
		`{`+meta("backup-workers", "they run the activities")+`, "spec": {"startToCloseTimeout": 600, "deploymentIntentGroup": "workers", "compositeApp": "backup", "compositeAppVersion": "v1"}}`),
	kindOf[v2.WorkflowIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/temporal-workflow-intents", "",
		`{`+meta("reindex", "when users ask for it")+`, "spec": {"runner": "http", "workflowClient": {"scheme": "http", "clientEndpointName": "workflows.example.org", "clientEndpointPort": 9090},
		"temporal": {"workflowClientName": "reindex", "workflowStartOptions": {"ID": "reindex-till", "TaskQueue": "reindex", "WorkflowExecutionTimeout": 600000000000, "WorkflowRunTimeout": 60000000000, "WorkflowTaskTimeout": 10000000000, "RetryPolicy": {"InitialInterval": 1000000000, "BackoffCoefficient": 2, "MaximumInterval": 60000000000, "MaximumAttempts": 5, "NonRetryableErrorTypes": ["missing"]}}, "workflowParams": {"activityParams": {"index": {"shard": "1"}}}}, "command": "", "timeoutSeconds": 600}}`),
	kindOf[v2.PolicyIntent]("projects/{project}/composite-apps/{compositeApp}/{version}/deployment-intent-groups/{deploymentIntentGroup}/policy-intents", "",
		`{`+meta("rollback-on-errors", "the last good revision comes back when errors rise")+`, "spec": {"event": {"id": "errors", "agent": "watcher"}, "policy": {"policyName": "errors", "expression": "event.data.rate > 0.1"}, "actor": "rollback", "actorArg": {"revision": "3"}, "author": ""}}`),
	kindOf[v2.PolicyAgent]("policy/agents", "", `{`+meta("watcher", "watches the error rates of shops")+`, "spec": {"endpoint": "watcher.example.org"}}`),
	kindOf[v2.LogicalCloud]("projects/{project}/logical-clouds", "",
		`{`+meta("stores", "all stores")+`, "spec": {"namespace": "shop", "level": "0", "labels": {"team": "shop"}, "user": {"userName": "shop", "type": "certificate"}, "serviceAccountName": "shop-apply"}}`),
	kindOf[v2.CACert]("projects/{project}/ca-certs", "",
		`{`+meta("stores", "certificates of the stores' workloads")+`, "spec": {"isCA": true, "issuerRef": {"name": "company-root", "kind": "ClusterIssuer", "group": "cert-manager.io"}, "issuingCluster": {"clusterProvider": "edge", "cluster": "center", "namespace": "default"}, "duration": "8760h",
			"csrInfo": {"keySize": 4096, "version": 1, "dnsNames": ["ca.stores.example.org"], "emailAddresses": ["ca@example.org"], "keyUsages": ["cert sign", "crl sign"], "algorithm": {"publicKeyAlgorithm": "RSA", "signatureAlgorithm": "SHA512WithRSA"},
				"subject": {"locale": {"country": ["SE"], "locality": ["Lund"], "postalCode": ["22100"], "province": ["Skåne"], "streetAddress": ["Torget 1"]}, "names": {"commonNamePrefix": "stores"}, "organization": {"names": ["Shop"], "units": ["Stores"]}}}}}`),
	kindOf[v2.CACertLogicalCloud]("projects/{project}/ca-certs/{caCert}/logical-clouds", "",
		`{`+meta("stores", "")+`, "spec": {"logicalCloud": "stores"}}`),
	kindOf[v2.CACertCluster]("projects/{project}/ca-certs/{caCert}/logical-clouds/{caCertLogicalCloud}/clusters", "",
		`{`+meta("large", "the large stores")+`, "spec": {"scope": "label", "clusterProvider": "edge", "cluster": "", "label": "large"}}`),
	kindOf[v2.ClusterReference]("projects/{project}/logical-clouds/{logicalCloud}/cluster-references", "",
		`{`+meta("store-1", "")+`, "spec": {"clusterProvider": "edge", "cluster": "store-1", "loadBalancerIP": "", "certificate": ""}}`),
	kindOf[v2.UserPermission]("projects/{project}/logical-clouds/{logicalCloud}/user-permissions", "",
		`{`+meta("own-namespace", "all of the cloud's own namespace")+`, "spec": {"namespace": "shop", "apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]}}`),
	kindOf[v2.ClusterQuota]("projects/{project}/logical-clouds/{logicalCloud}/cluster-quotas", "",
		`{`+meta("small", "for small stores")+`, "spec": {"limits.cpu": "4", "limits.memory": "8Gi", "pods": "50"}}`),
	kindOf[v2.ClusterProvider]("cluster-providers", "", `{`+meta("edge", "clusters in stores")+`}`),
	kindOf[v2.SyncObject]("cluster-providers/{clusterProvider}/cluster-sync-objects", "",
		`{`+meta("fleet", "the repository of the stores")+`, "spec": {"kv": [{"gitType": "git"}, {"url": "https://git.example.org/fleet.git"}, {"branch": "main"}, {"userName": "emco"}, {"gitToken": "a-token"}]}}`),
	kindOf[v2.Cluster]("cluster-providers/{clusterProvider}/clusters", "the kubeconfig, for a cluster without gitOpsType",
		`{`+meta("store-1", "pulls from Git")+`, "spec": {"gitOps": {"gitOpsType": "fluxcd", "gitOpsReferenceObject": "fleet", "gitOpsResourceObject": "fleet", "gitOpsRefMode": "shard", "gitOpsShard": "s000"}}}`),
	kindOf[v2.ClusterLabel]("cluster-providers/{clusterProvider}/clusters/{cluster}/labels", "", `{"clusterLabel": "flagship"}`),
	kindOf[v2.KV]("cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs", "", `{`+meta("site", "facts about the site")+`, "spec": {"kv": [{"region": "north"}]}}`),
	kindOf[v2.Role]("roles", "", `{`+meta("restarter", "who may stop and start deployments")+`, "spec": {"rules": [{"verbs": ["get", "list"], "types": ["*"]}, {"verbs": ["act:stop", "act:instantiate"], "types": ["deployment-intent-groups"]}]}}`),
	kindOf[v2.RoleBinding]("projects/{project}/role-bindings", "",
		`{`+meta("shop-deployers", "the team of the shop")+`, "spec": {"role": "deployer", "subjects": ["group:corp:shop", "token:ci"], "expires": "2027-01-01T00:00:00Z"}}`),
	kindOf[v2.Controller]("controllers", "", `{`+meta("rsync", "")+`, "spec": {"host": "rsync.example.org", "port": 9031, "type": "placement", "priority": 1}}`),
	kindOf[v2.DtcController]("dtc-controllers", "", `{`+meta("its", "")+`, "spec": {"host": "its.example.org", "port": 9040, "type": "action", "priority": 1}}`),
	kindOf[v2.ClmController]("clm-controllers", "", `{`+meta("notify", "")+`, "spec": {"host": "notify.example.org", "port": 9050, "priority": 1}}`),
}

// The reference shows the types, and what their rules refuse. make gen rewrites it.
func TestTheReferenceIsCurrent(t *testing.T) {
	comments := readComments(t)
	pages := map[string]string{"README.md": indexPage(comments)}
	for _, k := range referenceKinds {
		pages[k.page()] = k.render(t, comments)
	}
	old, err := filepath.Glob(filepath.Join(referencePages, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if _, ok := pages[filepath.Base(file)]; !ok {
			t.Errorf("%s is the page of no document; remove it", file)
		}
	}
	for name, text := range pages {
		file := filepath.Join(referencePages, name)
		if now, err := os.ReadFile(file); err == nil && string(now) == text {
			continue
		}
		if !*update {
			t.Errorf("%s is not what the types say; make gen rewrites it", file)
		} else if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each document that the REST interface stores has a page.
func TestEachDocumentIsInTheReference(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, k := range referenceKinds {
		listed[k.name()] = true
	}
	all := readComments(t)
	for name, fields := range all.embeds {
		if slices.Contains(fields, "Named") && !listed[name] {
			t.Errorf("%s embeds Named, but referenceKinds has no row for it", name)
		}
	}
	if len(all.embeds) == 0 {
		t.Error("no types were read")
	}
}

func (k referenceKind) name() string { return reflect.TypeOf(k.document).Elem().Name() }
func (k referenceKind) page() string { return strings.ToLower(k.name()) + ".md" }

// sourceComments are the comments of types and of their fields.
type sourceComments struct {
	types  map[string]string
	fields map[string]string   // by "Type.Field"
	embeds map[string][]string // the embedded types of a type
}

func readComments(t *testing.T) sourceComments {
	t.Helper()
	c := sourceComments{types: map[string]string{}, fields: map[string]string{}, embeds: map[string][]string{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					c.add(g, s.(*ast.TypeSpec))
				}
			}
		}
	}
	return c
}

func (c sourceComments) add(g *ast.GenDecl, s *ast.TypeSpec) {
	doc := s.Doc
	if doc == nil {
		doc = g.Doc
	}
	c.types[s.Name.Name] = oneLine(doc)
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range structure.Fields.List {
		text := oneLine(f.Comment)
		if text == "" {
			text = oneLine(f.Doc)
		}
		for _, n := range f.Names {
			c.fields[s.Name.Name+"."+n.Name] = text
		}
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			c.embeds[s.Name.Name] = append(c.embeds[s.Name.Name], id.Name)
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// referenceRow is a member of a document.
type referenceRow struct {
	path, word, comment string
	kind                reflect.Kind
	aliases             string
}

// rows lists the members below a type, in the order of the source.
func (c sourceComments) rows(t reflect.Type, at string) (out []referenceRow) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			out = append(out, c.rows(f.Type, at)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		path := strings.TrimPrefix(at+"."+name, ".")
		row := referenceRow{path: path, comment: c.fields[t.Name()+"."+f.Name], kind: f.Type.Kind(), aliases: f.Tag.Get("alias")}
		inner, suffix := f.Type, ""
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			if inner.Kind() == reflect.Slice && reflect.PointerTo(inner).Implements(reflect.TypeFor[json.Unmarshaler]()) {
				row.word += "any value"
				break
			}
			switch inner.Kind() {
			case reflect.Slice:
				suffix += "[]"
				row.word += "list of "
			case reflect.Map:
				suffix += ".*"
				row.word += "map of "
			}
			inner = inner.Elem()
		}
		row.word += map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "number", reflect.Int64: "number", reflect.Struct: "object"}[inner.Kind()]
		if inner.Kind() == reflect.Struct && row.comment == "" {
			row.comment = c.types[inner.Name()]
		}
		out = append(out, row)
		if inner.Kind() == reflect.Struct {
			out = append(out, c.rows(inner, path+suffix)...)
		}
	}
	return out
}

func (k referenceKind) render(t *testing.T, c sourceComments) string {
	t.Helper()
	doc, err := k.decode([]byte(k.example))
	if err == nil {
		err = doc.Validate()
	}
	if err != nil {
		t.Fatalf("the example of %s: %v", k.name(), err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from the types in src/api/v2; make gen rewrites it. -->\n\n%s\n\n", k.name(), c.types[k.name()])
	fmt.Fprintf(&b, "Collection: `/v2/%s` ([routes](../rest.md)).\n", k.path)
	if k.file != "" {
		fmt.Fprintf(&b, "The request is `multipart/form-data`: the document in part `metadata`, and in part `file` %s.\n", k.file)
	}
	b.WriteString("\n| member | type | default | limits | description |\n|---|---|---|---|---|\n")
	for _, r := range c.rows(reflect.TypeOf(k.document).Elem(), "") {
		text := r.comment
		if text == "" {
			t.Errorf("%s: %s has no comment in the source", k.name(), r.path)
		}
		if r.aliases != "" {
			text = strings.TrimSpace(strings.TrimSuffix(text, ".") + ". Also accepted: `" + strings.ReplaceAll(r.aliases, ",", "`, `") + "`.")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.path, r.word, k.byDefault(t, r), k.limits(t, r), strings.ReplaceAll(text, "|", "\\|"))
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(k.example), "", "  "); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n## Example\n\n```json\n%s\n```\n", pretty.String())
	return b.String()
}

func indexPage(c sourceComments) string {
	var b strings.Builder
	b.WriteString(`# Documents

<!-- Generated from the types in src/api/v2; make gen rewrites it. -->

One page for each kind of document: its members, their types, defaults and limits, and an example. The
[glossary](../../glossary.md) defines the words, the [REST reference](../rest.md) the routes.

- A document is one JSON object of at most 1 MiB. Member names match in any letter case. An unknown
  member is dropped, and refused with ` + "`?strict=true`" + `. A member that is given twice is refused.
- A *name* has 1 to 128 letters, digits, ` + "`-`, `_` and `.`" + `, with a letter or digit at both ends.
- *required* members must be there and not empty. The limits were found by experiment: the generator
  sends wrong values to the rules of the server and shows what they allow.
- ` + "`[]` in a member's path stands for each entry of a list, `*`" + ` for each key of a map.

| document | what it is |
|---|---|
`)
	for _, k := range referenceKinds {
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", k.name(), k.page(), strings.ReplaceAll(c.types[k.name()], "|", "\\|"))
	}
	return b.String()
}

// tree is a JSON value that can be changed at a path.
type tree struct{ root any }

func parseTree(t *testing.T, text string) *tree {
	t.Helper()
	v := new(tree)
	if err := json.Unmarshal([]byte(text), &v.root); err != nil {
		t.Fatal(err)
	}
	return v
}

// at visits the value of a path, and creates what is missing on the way. The first entry of a
// list and the first key of a map stand for all of them.
func (v *tree) at(path string, change func(holder map[string]any, key string)) {
	node := v.root.(map[string]any)
	parts := strings.Split(path, ".")
	for i, part := range parts {
		key, list := strings.CutSuffix(part, "[]")
		if key == "*" {
			key = firstKey(node)
		}
		if i == len(parts)-1 {
			change(node, key)
			return
		}
		if list {
			all, _ := node[key].([]any)
			if len(all) == 0 {
				all = []any{map[string]any{}}
				node[key] = all
			}
			node = all[0].(map[string]any)
			continue
		}
		next, ok := node[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			node[key] = next
		}
		node = next
	}
}

func firstKey(m map[string]any) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return "key"
	}
	return slices.Min(keys)
}

// refusal returns the violations of one member of a changed example.
func (k referenceKind) refusal(t *testing.T, path string, value any) string {
	t.Helper()
	v := parseTree(t, k.example)
	leaf := path
	v.at(path, func(holder map[string]any, key string) {
		leaf = key
		switch value := value.(type) {
		case nil:
			delete(holder, key)
		case []any: // so many copies of the first entry
			if all, _ := holder[key].([]any); len(all) > 0 {
				holder[key] = slices.Repeat(all[:1], len(value))
			}
		default:
			holder[key] = value
		}
	})
	text, err := json.Marshal(v.root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := k.decode(text)
	if err == nil {
		err = doc.Validate()
	}
	if err == nil {
		return ""
	}
	want := strings.ReplaceAll(strings.ReplaceAll(path, "[]", "[0]"), "*", leaf)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at, why, _ := strings.Cut(strings.TrimPrefix(line, "- "), ": ")
		at, _, _ = strings.Cut(at, " (") // spec.rollout.waves (their number)
		if at == want {
			return why
		}
	}
	return ""
}

var (
	longerThan = regexp.MustCompile(`(?:longer than|at most) (\d+)`)
	notBetween = regexp.MustCompile(`not between (-?\d+) and (\d+)`)
	sample     = regexp.MustCompile(`^"[^"]*"(?:\.\.\.)? `)
)

// limits describes which values the rules refuse.
func (k referenceKind) limits(t *testing.T, r referenceRow) string {
	t.Helper()
	path, kind := r.path, r.kind
	if r.word == "map of string" { // the limit of its values
		path, kind = path+".*", reflect.String
	}
	var out []string
	add := func(text string) {
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	switch why := k.refusal(t, r.path, nil); {
	case strings.HasPrefix(why, "missing although "):
		condition, _, _ := strings.Cut(strings.TrimPrefix(why, "missing although "), ";")
		add("required when " + condition)
	case why != "":
		add("required")
	}
	switch kind {
	case reflect.String:
		wrong := sample.ReplaceAllString(k.refusal(t, path, "no such value!"), "")
		if strings.HasPrefix(wrong, "is not a name") {
			return strings.Join(append(out, "a name"), "; ")
		}
		add(allowed(wrong))
		if m := longerThan.FindStringSubmatch(k.refusal(t, path, strings.Repeat("a", 100_000))); m != nil && !strings.Contains(wrong, "most "+m[1]) {
			add("at most " + m[1] + " characters")
		}
	case reflect.Int, reflect.Int64:
		if m := notBetween.FindStringSubmatch(k.refusal(t, path, 1<<30)); m != nil {
			add(m[1] + " to " + m[2])
		}
	case reflect.Slice:
		if m := notBetween.FindStringSubmatch(k.refusal(t, path, make([]any, 10_000))); m != nil {
			add(m[1] + " to " + m[2] + " entries")
		}
	}
	return strings.Join(out, "; ")
}

// allowed turns a refusal into what is allowed.
func allowed(refusal string) string {
	if _, remedy, ok := strings.Cut(refusal, "; "); ok {
		return remedy
	}
	if choice, ok := strings.CutPrefix(refusal, "is neither "); ok {
		return strings.Replace(choice, " nor ", " or ", 1)
	}
	if choice, ok := strings.CutPrefix(refusal, "is none of "); ok {
		return "one of " + choice
	}
	if kind, ok := strings.CutPrefix(refusal, "is no "); ok {
		return "a " + kind
	}
	return strings.Replace(refusal, "is not ", "only ", 1)
}

// byDefault returns the value of a member that a client leaves out, if it is not empty.
func (k referenceKind) byDefault(t *testing.T, r referenceRow) string {
	t.Helper()
	if r.kind == reflect.Struct || r.kind == reflect.Pointer || strings.Contains(r.path, "[]") {
		return ""
	}
	v := parseTree(t, k.example)
	v.at(r.path, func(holder map[string]any, key string) { delete(holder, key) })
	text, err := json.Marshal(v.root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := k.decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	var found any
	parseTree(t, string(text)).at(r.path, func(holder map[string]any, key string) { found = holder[key] })
	switch value := found.(type) {
	case string:
		if value != "" {
			return "`" + value + "`"
		}
	case float64:
		if value != 0 {
			return strconv.FormatFloat(value, 'f', -1, 64)
		}
	case bool:
		if value {
			return "true"
		}
	}
	return ""
}
