package figures

// Column is a value of samples.
type Column struct {
	Name string // in Sample.Values
	Head string
	Form string // for fmt
}

// Metric defines a measurement and its table. The first column compares the peers.
type Metric struct {
	Name, Title string
	Text        string // its meaning, in a paragraph
	Base        string // the peer of the comparison
	Rate        bool   // more is better
	Columns     []Column
}

// The names of the peers of comparisons.
const (
	Writer       = "ours: writer"
	WriterGitHub = "ours: writer, GitHub"
	Process      = "ours: emco"
	Direct       = "ours: emco, direct"
	Floor        = "floor: the same bytes once, one push"
)

var (
	seconds = Column{"seconds", "s", "%.3g"}
	cpu     = Column{"cpu", "CPU s", "%.2f"}
	commits = Column{"commits", "commits", "%.0f"}
	files   = Column{"files", "files changed", "%.0f"}
	sent    = Column{"sent", "origin grew, KiB", "%.0f"}
	pushes  = Column{"pushes", "push requests", "%.0f"}
	calls   = Column{"calls", "API calls", "%.0f"}
	virtual = Column{"virtual", "hours by the limits", "%.3g"}
	renders = Column{"renders", "renders", "%.0f"}
	rss     = Column{"rss", "peak MiB", "%.0f"}
	worst   = Column{"p99", "p99, s", "%.3g"}
	usual   = Column{"p50", "p50, s", "%.3g"}
)

// Metrics are the measurements of the suite, in the order of the tables.
func Metrics() []Metric {
	write := []Column{seconds, cpu, files, commits, pushes, sent, calls, virtual, renders, rss}
	return []Metric{
		{"P1", "First instantiation", "From the request until the files of the last cluster are durable on the pushed branch. Peers except `" + Process + "` receive rendered files; that one starts with the REST call, and renders.", Writer, false, write},
		{"P2", "One value of one app, on all clusters", "All manifests of the app change. Otherwise as P1.", Writer, false, write},
		{"P3", "A change for one cluster", "One manifest on one cluster. `" + Process + "` starts with a label on the cluster over REST, then updates the deployment, which places again. Each round makes several changes, one after the other, for some seconds; the time is their median, the other values are for one change.", Writer, false, append([]Column{seconds, {"worst", "worst, s", "%.3g"}}, write[1:]...)},
		{"P4", "How it grows", "Slope of the logarithm of the time over the logarithm of the number of files: 0 means that the time does not grow, 1 that it grows like the files. Computed from the samples of P1 to P3.", Writer, false, []Column{{"slope", "slope", "%.2f"}}},
		{"P5", "Concurrent changes", "The given number of callers change their own files repeatedly on one branch, for some seconds. The count is of acknowledged changes; the branch contained each of them afterwards.", Writer, true, []Column{{"rate", "changes/s", "%.3g"}, {"p99", "p99, s", "%.3g"}, {"refused", "refused pushes", "%.0f"}, {"lost", "lost", "%.0f"}, commits, calls, cpu}},
		{"P6", "One caller, one file per commit", "Durable commits per second, one after the other.", "ours: engine", true, []Column{{"rate", "commits/s", "%.3g"}, {"p99", "p99, s", "%.3g"}, cpu}},
		{"P7", "Status coming in", "Simulated clusters report over HTTPS, but without TLS, which ends before the program: on 256 connections, as fast as the server answers; an answer means that the report is in etcd, on disk. Staleness is the time from a report of one cluster until the API's status shows it, while the others report at a fixed rate; it begins when all news of the load at full rate are shown. The clusters run on the same machine.", Process, true, []Column{{"rate", "reports/s", "%.4g"}, {"p99", "p99 of an answer, ms", "%.3g"}, {"p50", "p50, ms", "%.3g"}, {"staleness", "p99 until the API shows it, s", "%.3g"}, {"behind", "after the load, until the API shows all of it, s", "%.3g"}, {"late", "asked to come again", "%.0f"}, {"fetches", "fetches", "%.0f"}, cpu, rss}},
		{"P8", "What a cluster pulls", "Bytes that one cluster receives to get its files, by the method of fetching.", "git, branch of the cluster alone", false, []Column{{"bytes", "KiB", "%.4g"}, seconds, cpu}},
		{"P9", "Memory", "Peak resident memory of the whole emco process, including its stores, after P1 to P3. The slope is between the smallest and the largest fleet of the run.", Process, false, []Column{{"rss", "peak MiB", "%.0f"}, {"perCluster", "KiB per cluster more", "%.1f"}}},
		{"P10", "API latency", "Requests are sent at a fixed rate, regardless of the answers; the time starts when a request is due.", Process, false, []Column{{"p99", "p99, ms", "%.3g"}, {"p50", "p50, ms", "%.3g"}, {"achieved", "answers/s", "%.0f"}, {"errors", "errors", "%.0f"}, {"each", "CPU of an answer, µs", "%.0f"}}},
		{"P11", "Calls of the store", "Requests to etcd, reads and writes, of an instantiation, including status polls.", Process, false, []Column{{"calls", "calls", "%.0f"}, {"bytes", "KiB written", "%.0f"}, seconds}},
		{"P12", "Charts rendered", "Of `" + Process + "` in P1 to P3.", Process, false, []Column{{"renders", "renders", "%.0f"}, {"distinct", "distinct", "%.0f"}}},
		{"P13", "Restart", "From kill -9 until the program is ready again, and until a change requested then is durable.", Process, false, []Column{{"seconds", "ready, s", "%.3g"}, {"durable", "first change durable, s", "%.3g"}, {"extra", "unrequested commits", "%.0f"}, rss}},
		{"P14", "Blast radius", "An instantiation with one broken part: until all other pairs are durable, compared with a clean instantiation.", "clean", false, []Column{seconds, {"arrived", "pairs arrived", "%.0f"}, {"wanted", "pairs that can", "%.0f"}}},
		{"P15", "A long life", "Commits one after the other on a branch of a hundred clusters: one manifest on one cluster, or one time in fifty a value of an app on all. The origin is repacked (`git repack --geometric`) every 200 commits, concurrently with commits, as on Git servers; the peer's origin never is. Memory is that of the benchmark, which contains the writer.", Writer, false, []Column{
			{"p99", "p99, ms", "%.3g"},
			{"p50", "p50, ms", "%.3g"},
			{"drift", "p99 of the last fifth, to the first", "%.2f"},
			{"rss", "MiB of memory", "%.0f"},
			{"size", "repository, MiB", "%.1f"},
			{"bloat", "to fully packed", "%.2f"},
			{"objects", "files of objects", "%.0f"},
			{"upkeep", "s of repacking", "%.1f"},
		}},
		{"P16", "A hosted provider's limits", "A first instantiation over REST on a GitHub test server that enforces GitHub's limits of a token: 5,000 calls per hour, 900 points per minute. The calls are real; the waiting uses a virtual clock.", WriterGitHub, false, []Column{calls, virtual, commits, {"seconds", "s, without waiting", "%.3g"}}},
		{"P17", "To real clusters", "From the moment when a change is durable in Git until the last of the real API servers has all its objects, with real Flux: `" + Process + "` with its backend for Flux and Flux in each cluster; a repository written by hand that the Flux of each cluster reads; and one that the Flux of a hub reads, which writes to all clusters. `" + Direct + "` writes to the clusters itself, and its clock starts when the request is accepted. Argo CD writes to all clusters from a hub, too: an ApplicationSet makes its Applications, after the first commit; it gets a webhook after each commit, or looks every two to three minutes by default. Karmada has no Git: there the clock starts when its API server has acknowledged the last object; it writes to the clusters (push), or an agent in each cluster reads its API server (pull). Open Cluster Management has none either; an agent in each cluster reads the API server of the hub. Changes come at random times of Flux's period; the time is their median. At rest means a minute without a change afterwards. The control plane is what serves all clusters, without the Git server: the program, or the hub with its etcd, kube-apiserver, kube-controller-manager, and Flux, Argo CD, Karmada or Open Cluster Management. What runs in the clusters, in addition to Kubernetes, is summed over them.", Process, false, []Column{seconds, {"worst", "worst, s", "%.3g"}, {"install", "installation, s", "%.3g"}, {"restCPU", "control plane at rest, CPU s/min", "%.2f"}, {"restMiB", "its MiB", "%.0f"}, {"edgeCPU", "in the clusters at rest, CPU s/min", "%.2f"}, {"edgeMiB", "their MiB", "%.0f"}}},
		{"P18", "Many at once", "Many deployments with one app on ten clusters each, on one server. Times of changes start when the change is due and end when the last of its ten clusters is durable; times of reads start when the request is due.", Process, false, []Column{worst, usual, {"seconds", "until the last is durable, s", "%.3g"}, {"done", "done", "%.0f"}, {"late", "not done", "%.0f"}, commits, cpu, rss}},
		{"P20", "Takeover", "From the end of the process that writes a branch until a change that is requested at another process at that moment is durable. A killed process has its lease for ten seconds, which is the default.", Process, false, []Column{seconds}},
		{"P21", "Choices among many clusters", "A fleet whose clusters have key-value pairs. A placement by cost, carbon and load, spread over five zones, with the reason for each cluster; the first one reads the key-value pairs. An installation of an app whose values name the zone of each cluster, until the status says so; it fails if it renders more often than there are zones.", Process, false, []Column{seconds, {"first", "the first time, s", "%.3g"}, renders}},
		{"P19", "Distance to the floor", "The time of P1 to P3, divided by that of the floor in the same round. Computed from their samples.", Writer, false, []Column{{"times", "times the floor", "%.2f"}, {"timesCPU", "times its CPU", "%.2f"}}},
	}
}
