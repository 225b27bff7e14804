// Package config is the program's configuration: one struct, filled from defaults,
// then a file, then EMCO_* variables, then flags. It refuses invalid values, and unknown settings in the file and in flags; it warns of
// unknown variables, because others may set variables with the same beginning.
package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/git/budget"
)

// Config is all that can be set. Each setting has a name made from its path, http.address in
// the file and as a flag, and a variable, EMCO_HTTP_ADDRESS.
type Config struct {
	Target []string `json:"target" help:"services to run: all, or some of clm, placementintent, orchestrator, rsync, dcm"`
	Data   string   `json:"data" help:"folder of the embedded stores, packages and the sealing key"`
	Disk   int64    `json:"diskReserve" help:"free disk space, in bytes, that the data folder must keep: below it EMCO writes nothing, and below twice of it /readyz fails; 0: none"`
	Lease  Duration `json:"lease" help:"how long after a process died or stalled the others take over its work; whole seconds, at least two"`
	Log    Log      `json:"log"`
	HTTP   HTTP     `json:"http"`
	Ops    Ops      `json:"ops"`
	GRPC   GRPC     `json:"grpc"`
	Status Status   `json:"status"`
	Store  Store    `json:"store"`

	Encryption Encryption `json:"encryption"`

	Level Level `json:"level"`

	Etcd   Etcd   `json:"etcd"`
	Render Render `json:"render"`
	Git    Git    `json:"git"`
	Sync   Sync   `json:"sync"`
	Kube   Kube   `json:"kube"`
	Azure  Azure  `json:"azure"`
	OCI    OCI    `json:"oci"`
	S3     S3     `json:"s3"`
	Retry  Retry  `json:"retry"`

	Outbound    Outbound    `json:"outbound"`
	Controllers Controllers `json:"controllers"`

	Workflows Workflows `json:"workflows"`
	Projects  Projects  `json:"projects"`
	Auth      Auth      `json:"auth"`
	Audit     Audit     `json:"audit"`

	Trace Trace `json:"trace"`
	Debug Debug `json:"debug"`
}

// Auth configures who may use the API.
type Auth struct {
	Mode          string    `json:"mode" help:"on: callers authenticate, and do what roles allow; off: everyone who reaches the API may do everything; empty: on with auth.issuers, and where other machines reach the API without http.insecure, otherwise off; http.clientCA without auth.issuers needs on or off"`
	Issuers       []Issuer  `json:"issuers" help:"OpenID Connect providers whose tokens are accepted, and where people sign in with browsers; only in the file"`
	BootstrapFile string    `json:"bootstrapFile" help:"file with the token, of at least 32 characters, that lets the first administrator in; empty: a start without an administrator makes one and prints it once"`
	Proxy         AuthProxy `json:"proxy"`
	Sessions      Sessions  `json:"sessions"`
	FourEyes      []string  `json:"fourEyes" help:"projects in which callers cannot approve their own changes; * for all; the same in all processes"`
	Requests      int       `json:"requests" help:"requests that a caller may send to a process in a second, with bursts of twice as many, with auth.mode on; 0: any number"`
}

// Issuer is an OpenID Connect provider.
type Issuer struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	Audience    string `json:"audience"`
	Client      string `json:"client"`
	CA          string `json:"ca"`
	GroupsClaim string `json:"groupsClaim"`
	Prefix      string `json:"prefix"`

	Web IssuerWeb `json:"web"`
}

// IssuerWeb is EMCO as a client of the provider, for people who sign in with a browser.
type IssuerWeb struct {
	Client     string `json:"client"`
	SecretFile string `json:"secretFile"`
	Redirect   string `json:"redirect"`
	SignedOut  string `json:"signedOut"` // where the provider sends a browser that has signed out there; empty: it stays there
}

// Sessions are those of browsers.
type Sessions struct {
	Life   Duration `json:"life" help:"how long a browser stays signed in, at most 8h"`
	Idle   Duration `json:"idle" help:"how long a browser stays signed in without a request"`
	Person int      `json:"person" help:"sessions of one person at the same time, at most 100; a further sign-in ends the oldest"`
}

// AuthProxy is a gateway that authenticates people.
type AuthProxy struct {
	Header string   `json:"header" help:"header where a gateway names the user of a request, with auth.mode on; believed only from the clients of auth.proxy.names; empty: none"`
	Names  []string `json:"names" help:"common names or DNS names in the client certificates of gateways"`
}

// Debug configures the profiler.
type Debug struct {
	Address string `json:"address" help:"address that serves profiles for go tool pprof, without authentication: keep it on loopback; empty: none"`
}

// Log configures the log.
type Log struct {
	Level  string `json:"level" help:"debug, info, warn or error"`
	Format string `json:"format" help:"json or text"`
}

// HTTP configures the REST API: address, TLS, clients and limits.
type HTTP struct {
	Address      string   `json:"address" help:"address to listen on; loopback by default"`
	EMCOPorts    bool     `json:"emcoPorts" help:"also listen, on the host of http.address, on the ports of upstream EMCO's services, so that its clients find each service at its own address"`
	Hosts        []string `json:"hosts" help:"host names that clients may call the API with, besides localhost, the host of http.address, and IP addresses"`
	Proxies      []string `json:"trustedProxies" help:"addresses and networks, such as 10.0.0.0/24, of proxies in front of http.address and grpc.address whose header X-Forwarded-For names the client, for limits by address, the log and the audit log; empty: none"`
	Insecure     bool     `json:"insecure" help:"allow http.address, grpc.address and debug.address beyond loopback, although everyone who reaches them may do everything; for a protected network, or behind a gateway that authenticates"`
	TLS          string   `json:"tls" help:"terminated: something in front of http.address and grpc.address ends TLS, so that tokens may arrive without it; empty: beyond loopback, auth.mode on needs http.cert"`
	PackageLimit int64    `json:"packageLimit" help:"largest uploaded package, in bytes"`
	ActorHeader  string   `json:"actorHeader" help:"header where a gateway names the user of a request, for histories and event logs, with auth.mode off; empty: every user is anonymous"`
	Linger       Duration `json:"linger" help:"how long a stopping process goes on accepting while /readyz answers 503, so that load balancers look elsewhere; 0: 5s if other machines reach http.address, otherwise not at all"`
	Drain        Duration `json:"drain" help:"how long running requests may take to end at a stop"`
	Cert         string   `json:"cert" help:"file with the certificate for TLS on http.address and grpc.address, with its chain, in PEM; read again when it changes; empty: plain HTTP"`
	CertKey      string   `json:"certKey" help:"file with the key of http.cert"`
	ClientCA     string   `json:"clientCA" help:"file with certificate authorities: with auth.mode on a certificate of one of them names its user, and clients with tokens need none; with auth.mode off clients of http.address and grpc.address need one, and may then do everything"`
}

// Ops is the address for probes and Prometheus.
type Ops struct {
	Address string `json:"address" help:"address that serves /healthz, /readyz, /metrics and /version without TLS and to everyone, for probes; empty: only http.address serves them"`
}

// GRPC is the address of the status notification service.
type GRPC struct {
	Address string `json:"address" help:"address of upstream's gRPC service StatusNotify; loopback by default; empty: none"`
}

// Status configures reports, and the streams of status.
type Status struct {
	Stale   Duration `json:"stale" help:"how long the last report of a cluster counts; a cluster that is silent longer is Unknown"`
	Streams int      `json:"streams" help:"status streams at the same time"`

	UpstreamWords bool `json:"upstreamWords" help:"show readyStatus in upstream EMCO's words only, for scripts that know no others: what is Unknown reads NotPresent if the cluster has never reported it, otherwise NotReady"`

	Interval      Duration `json:"interval" help:"pause between two polls of a repository for reports"`
	Queue         int      `json:"queue" help:"reports by HTTPS that may wait for the store; the agent of one more must try again"`
	WebhookSecret Secret   `json:"webhookSecret" help:"secret with which Git servers sign their calls of /v2/webhooks/git; empty: all calls are refused"`
}

// Store is where documents are kept.
type Store struct {
	Driver string `json:"driver" help:"store of documents and packages: sqlite, or etcd or mongo, where processes on several machines share them; empty: etcd with etcd.endpoints, unless the data folder holds documents.db, otherwise sqlite"`
	Key    Secret `json:"key" help:"sealing key, 32 bytes in base64, the same for all processes that share documents; empty: a file in the data folder, made at the first start"`
	Mongo  Mongo  `json:"mongo"`
}

// Level configures the level of stored data.
type Level struct {
	Auto bool `json:"auto" help:"raise the level of stored data when all processes have known a higher one for a minute, or at the start with an embedded etcd; false: emco level raise raises it, and until then the older version starts again"`
}

// Encryption names the key that encrypts the data keys of the stores.
type Encryption struct {
	KEK string `json:"kek" help:"key-encryption key of the data keys: file:///PATH, env://VARIABLE, or kms://unix:/PATH of a plugin of Kubernetes' KMS v2 protocol; empty: store.key, or a file in the data folder, made at the first start"`
}

// Mongo is the server of the driver mongo.
type Mongo struct {
	URI      Secret `json:"uri" help:"address of MongoDB, with user, password and TLS: mongodb://user:password@host/?tls=true&tlsCAFile=ca.crt"`
	Database string `json:"database" help:"name of the database"`
}

// Etcd configures the store of the AppContext and the audit log, and of documents with the driver etcd.
type Etcd struct {
	Endpoints []string `json:"endpoints" help:"addresses of an external etcd; empty: embedded in the data folder"`
	Prefix    string   `json:"prefix" help:"prefix of all keys"`
	Quota     int64    `json:"quota" help:"largest database of the embedded etcd, in bytes; when it is full only reads are served"`
	CA        string   `json:"ca" help:"file with the certificate authority of an external etcd"`
	Cert      string   `json:"cert" help:"file with the client certificate"`
	CertKey   string   `json:"certKey" help:"file with the key of the client certificate"`
}

// Render bounds the rendering of charts.
type Render struct {
	Timeout     Duration `json:"timeout" help:"longest rendering of one chart, in processor time; twelve times that on the clock"`
	Memory      int64    `json:"memory" help:"most memory of one rendering, in bytes"`
	KubeVersion string   `json:"kubeVersion" help:"Kubernetes version that charts see"`
	Anew        bool     `json:"anew" help:"render all apps for each revision, changed or not; to check that the result is equal"`
}

// Git configures the Git writers.
type Git struct {
	Window     Duration `json:"window" help:"how long a busy writer collects changes before the next commit"`
	Hosted     Duration `json:"hostedWindow" help:"how long a writer of a repository at GitHub or GitLab, which limit pushes, collects changes before the next commit; all branches of a repository share it"`
	Rest       Duration `json:"rest" help:"longest pause for a repository whose server is down, refuses the credential or throttles; the first pause is retry.first"`
	Look       Duration `json:"look" help:"how often branches are checked for external edits of owned files, with one read per branch; 0: only before commits"`
	Timeout    Duration `json:"timeout" help:"longest single exchange with a Git server"`
	Author     string   `json:"author" help:"author of commits: Name <mail>"`
	SigningKey string   `json:"signingKey" help:"file with the private SSH key that signs commits, without a passphrase; empty: commits are not signed"`
	PlainHTTP  bool     `json:"plainHTTP" help:"allow sync objects with http:// repositories that are not on this machine, although credentials then travel in the clear"`
	AllowFile  bool     `json:"allowFile" help:"allow file:// repositories; for tests only"`

	SSHProgram string `json:"sshProgram" help:"the ssh program, for repositories with sshClient: program"`
	SSHConfig  string `json:"sshConfig" help:"file with settings for the ssh program of git.sshProgram, as in ~/.ssh/config, such as a jump host or a hardware key; empty: no file"`

	GitHub Rates `json:"github"`
	GitLab Rates `json:"gitlab"`
}

// Rates limit the calls of a Git hosting provider.
type Rates struct {
	CallsMinute   int `json:"callsMinute" help:"calls of the provider's API in a minute, for each credential; 0: no limit"`
	CallsHour     int `json:"callsHour" help:"calls in an hour; 0: no limit"`
	PointsMinute  int `json:"pointsMinute" help:"points in a minute, the weight of calls; 0: no limit"`
	ContentMinute int `json:"contentMinute" help:"calls that make content, in a minute; 0: no limit"`
	ContentHour   int `json:"contentHour" help:"calls that make content, in an hour; 0: no limit"`
	PushesMinute  int `json:"pushesMinute" help:"pushes in a minute, for each repository; 0: no limit"`
	ReadsSecond   int `json:"readsSecond" help:"reads by Git's protocol in a second, for each repository; 0: no limit"`
}

// Sync adds sync backends to the built-in ones.
type Sync struct {
	Plugins []string `json:"plugins" help:"executables that clusters of the sync type exec may name, each as name=/path; they run as this program's user"`
	Timeout Duration `json:"timeout" help:"longest run of such an executable"`
	Memory  int64    `json:"memory" help:"most memory of one run, in bytes"`
}

// Kube limits the requests to direct clusters.
type Kube struct {
	QPS     int      `json:"qps" help:"requests a second to one cluster"`
	Burst   int      `json:"burst" help:"requests at once to one cluster"`
	Timeout Duration `json:"timeout" help:"longest single request to a cluster"`
	Workers int      `json:"workers" help:"clusters worked on at the same time"`
}

// Azure locates Azure's services for clusters of the type azureArcV2, and limits the calls
// of them.
type Azure struct {
	Authority string   `json:"authority" help:"where Azure issues tokens; other clouds than the public one have other addresses"`
	Manager   string   `json:"manager" help:"Azure's resource manager; other clouds than the public one have other addresses"`
	Audience  string   `json:"audience" help:"audience of the tokens; the resource manager's address unless given"`
	CA        string   `json:"ca" help:"file with certificates to trust for both, in addition to the system's"`
	TokenFile string   `json:"federatedTokenFile" help:"file with this program's own token (workload identity), for clusters whose sync objects hold no secret; whoever may write sync objects may then use it"`
	Timeout   Duration `json:"timeout" help:"longest single request to Azure"`
	Writes    int      `json:"writesPerHour" help:"most writes an hour for each identity and subscription; Azure allows 1200"`
}

// OCI limits the requests to registries, for clusters of the type oci.
type OCI struct {
	Timeout   Duration `json:"timeout" help:"longest single exchange with a registry"`
	PlainHTTP bool     `json:"plainHTTP" help:"allow registries without TLS that are not on this machine"`
}

// S3 limits the requests to buckets, for clusters of the type s3.
type S3 struct {
	Timeout   Duration `json:"timeout" help:"longest listing of a cluster's folder, and longest exchange about one object"`
	PlainHTTP bool     `json:"plainHTTP" help:"allow buckets without TLS that are not on this machine"`
}

// Outbound restricts the servers that users may name: API servers, repositories, registries,
// buckets. Addresses of metadata services are always refused.
type Outbound struct {
	DenyPrivate bool     `json:"denyPrivate" help:"refuse servers on this machine and in private networks; a proxy of the environment must have a public address then"`
	Values      []string `json:"values" help:"URLs, each ending in /, below which patches of the generic action controller may read values ($(http://…)$); none: no values are read"`
	Engines     []string `json:"engines" help:"URLs, each ending in /, of OPA servers (http://opa.example.org:8181/), or of packages in them (…/v1/data/shop/), whose rules policy intents may ask for; none: they have expressions alone"`

	EngineAccess []EngineAccess `json:"engineAccess" help:"tokens and certificates for servers of outbound.engines; only in the file"`
}

// EngineAccess is how one OPA server is asked.
type EngineAccess struct {
	URL       string `json:"url"`       // the server: https://HOST:PORT
	TokenFile string `json:"tokenFile"` // with the bearer token; read for each question
	CA        string `json:"ca"`        // file with authorities; empty: those of the system
	Cert      string `json:"cert"`      // file with the client certificate
	Key       string `json:"key"`       // file with the key of cert
}

// Controllers configures the calls of external controllers. With ca or cert, all of them are called by TLS.
type Controllers struct {
	CA        string `json:"ca" help:"file with certificates in PEM that sign those of external controllers; empty: those of the system, or no TLS without cert"`
	Cert      string `json:"cert" help:"file with the client certificate in PEM that external controllers see; it needs key"`
	Key       string `json:"key" help:"file with the private key of cert"`
	PlainText bool   `json:"plainText" help:"allow external controllers without TLS that are not on this machine"`

	Schemas []string `json:"schemas" help:"files with referential schemas: types of documents that EMCO keeps for external controllers; every process needs the same"`
}

// Workflows are what hooks, and workflows that users start, may use. Without a list nothing runs.
type Workflows struct {
	Endpoints []string `json:"endpoints" help:"URLs, each ending in /, of servers that workflows may call (http://workflows.example.org:9090/); none: the runner http is off"`
	Programs  []string `json:"programs" help:"programs that workflows may run, each as name=/path; they run as this program's user; none: the runner command is off"`
	Memory    int64    `json:"memory" help:"most memory of one run of such a program, in bytes"`

	Temporal Temporal `json:"temporal"`
}

// Temporal is the server of the runner temporal, which emco-temporal has; emco refuses an address.
type Temporal struct {
	Address    string   `json:"address" help:"HOST:PORT of Temporal's frontend, for emco-temporal; empty: the runner temporal is off. emco has no client of Temporal and refuses an address"`
	Namespace  string   `json:"namespace" help:"namespace of Temporal where workflows run"`
	TaskQueues []string `json:"taskQueues" help:"task queues that workflows may use, each a name, or the beginning of names with * at its end; an address needs some"`
	CA         string   `json:"ca" help:"file with certificates in PEM that sign the frontend's; empty: those of the system, or no TLS without cert"`
	Cert       string   `json:"cert" help:"file with the client certificate in PEM; it needs key"`
	Key        string   `json:"key" help:"file with the private key of cert"`
}

// Projects divide the program among projects.
type Projects struct {
	Weights  []string `json:"weights" help:"projects with more than one share of renderings, deliveries and requests while others wait, each as project=number"`
	Requests int      `json:"requests" help:"requests for projects that are served at the same time; an eighth of them for one project"`
}

// Retry times the retries of failed deliveries.
type Retry struct {
	First   Duration `json:"first" help:"wait after the first failure of a delivery; doubled with each further one"`
	Longest Duration `json:"longest" help:"longest wait between retries, also after a refusal that needs a change, such as a wrong token"`
}

// shortestLease is the shortest lease that etcd grants with its default election timeout.
const shortestLease = 2 * time.Second

// smallestReserve is the smallest disk reserve, in bytes.
const smallestReserve = 128 << 20

// smallestQuota is the smallest database, in bytes, that an embedded etcd can start with and
// still store something.
const smallestQuota = 16 << 20

// Targets are the services that can be named in Config.Target besides "all".
func Targets() []string {
	return []string{"clm", "dcm", "orchestrator", "placementintent", "rsync"}
}

// Default returns the configuration that runs everything embedded on loopback.
func Default() Config {
	return Config{
		Target: []string{"all"},
		Data:   "emco-data",
		Disk:   256 << 20,
		Lease:  Duration(10 * time.Second),
		Log:    Log{Level: "info", Format: "json"},
		HTTP:   HTTP{Address: "127.0.0.1:9015", Hosts: []string{}, PackageLimit: 20 << 20, ActorHeader: "X-Forwarded-User", Drain: Duration(15 * time.Second)},
		GRPC:   GRPC{Address: "127.0.0.1:9016"},
		Status: Status{Stale: Duration(3 * time.Minute), Streams: 100, Interval: Duration(15 * time.Second), Queue: 2048},
		Store:  Store{Mongo: Mongo{Database: "emco"}},
		Level:  Level{Auto: true},
		Etcd:   Etcd{Endpoints: []string{}, Prefix: "/emco/", Quota: 8 << 30},
		Render: Render{Timeout: Duration(10 * time.Second), Memory: 512 << 20, KubeVersion: "v1.34.0"},
		Git: Git{
			Window: Duration(50 * time.Millisecond), Hosted: Duration(10 * time.Second), Rest: Duration(15 * time.Minute),
			Look: Duration(2 * time.Minute), Timeout: Duration(time.Minute), Author: "EMCO <emco@localhost>", SSHProgram: "ssh",
			GitHub: Rates(budget.GitHub()), GitLab: Rates(budget.GitLab()),
		},
		Workflows: Workflows{Endpoints: []string{}, Programs: []string{}, Memory: 256 << 20, Temporal: Temporal{Namespace: "default", TaskQueues: []string{}}},
		Sync:      Sync{Plugins: []string{}, Timeout: Duration(10 * time.Second), Memory: 256 << 20},
		Kube:      Kube{QPS: 50, Burst: 100, Timeout: Duration(30 * time.Second), Workers: 16},
		Azure: Azure{
			Authority: "https://login.microsoftonline.com", Manager: "https://management.azure.com",
			Timeout: Duration(30 * time.Second), Writes: 600,
		},
		OCI:   OCI{Timeout: Duration(time.Minute)},
		S3:    S3{Timeout: Duration(time.Minute)},
		Retry: Retry{First: Duration(time.Second), Longest: Duration(5 * time.Minute)},

		Projects: Projects{Weights: []string{}, Requests: 256},
		Auth:     Auth{Issuers: []Issuer{}, Requests: 50, Proxy: AuthProxy{Names: []string{}}, Sessions: Sessions{Life: Duration(8 * time.Hour), Idle: Duration(time.Hour), Person: 10}},
		Outbound: Outbound{EngineAccess: []EngineAccess{}},
		Audit:    defaultAudit(),
		Trace:    Trace{Ratio: 0.01},
	}
}

// Runs reports whether this process runs the service.
func (c Config) Runs(service string) bool {
	return slices.Contains(c.Target, "all") || slices.Contains(c.Target, service)
}

// Path returns a path below the data folder.
func (c Config) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Data}, elem...)...)
}
