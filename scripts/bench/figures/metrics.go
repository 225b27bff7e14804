package figures

// Column is a value of samples.
type Column struct {
	Name string // in Sample.Values
	Head string
	Form string // for fmt
}

// Metric says what is measured and how its table looks. The first column is the one by
// which peers are compared.
type Metric struct {
	Name, Title string
	Text        string // what it means, in a paragraph
	Base        string // the peer that others are compared with
	Rate        bool   // more is better
	Columns     []Column
}

// The names of peers that tables compare with.
const (
	Writer       = "ours: writer"
	WriterGitHub = "ours: writer, GitHub"
	Process      = "ours: emco"
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
)

// Metrics are what the suite measures, in the order of the tables.
func Metrics() []Metric {
	write := []Column{seconds, cpu, files, commits, pushes, sent, calls, virtual, renders, rss}
	return []Metric{
		{"P1", "First instantiation", "From the request until the files of the last cluster are durable on the pushed branch. Peers but `" + Process + "` are handed rendered files; that one begins with the REST call, and renders.", Writer, false, write},
		{"P2", "One value of one app, on all clusters", "All manifests of the app change. As P1 otherwise.", Writer, false, write},
		{"P3", "A change for one cluster", "One manifest on one cluster. `" + Process + "` begins with a label on the cluster by REST, then an update of the deployment, which places anew. Each round makes several changes, one after the other, as long as it takes seconds; the time is their median, the rest is for one change.", Writer, false, append([]Column{seconds, {"worst", "worst, s", "%.3g"}}, write[1:]...)},
		{"P4", "How it grows", "Slope of the logarithm of the time over the logarithm of the number of files: 0 means that the time does not grow, 1 that it grows as the files do. Made of the samples of P1 to P3.", Writer, false, []Column{{"slope", "slope", "%.2f"}}},
		{"P5", "Concurrent changes", "So many callers at once, each changing a file of its own again and again on one branch, for some seconds. Counted is what was acknowledged; each acknowledged change was found on the branch afterwards.", Writer, true, []Column{{"rate", "changes/s", "%.3g"}, {"p99", "p99, s", "%.3g"}, {"refused", "refused pushes", "%.0f"}, {"lost", "lost", "%.0f"}, commits, calls, cpu}},
		{"P6", "One caller, one file a commit", "Durable commits per second, one after the other.", "ours: engine", true, []Column{{"rate", "commits/s", "%.3g"}, {"p99", "p99, s", "%.3g"}, cpu}},
		{"P7", "Status coming in", "Simulated clusters report as they do by HTTPS, but without TLS, which ends before the program: over 256 connections, as fast as they are answered; an answer means that the report is in etcd, on disk. Staleness is from a report of one cluster until the API's status shows it, while the others report at a fixed rate. The clusters run on the same machine.", Process, true, []Column{{"rate", "reports/s", "%.4g"}, {"p99", "p99 of an answer, ms", "%.3g"}, {"p50", "p50, ms", "%.3g"}, {"staleness", "p99 until the API shows it, s", "%.3g"}, {"late", "asked to come again", "%.0f"}, {"fetches", "fetches", "%.0f"}, cpu, rss}},
		{"P8", "What a cluster pulls", "Bytes that one cluster has to receive to have its files, by the way it fetches.", "git, branch of the cluster alone", false, []Column{{"bytes", "KiB", "%.4g"}, seconds, cpu}},
		{"P9", "Memory", "Peak resident memory of the whole emco process, stores included, after P1 to P3. The slope is between the smallest and the largest fleet of the run.", Process, false, []Column{{"rss", "peak MiB", "%.0f"}, {"perCluster", "KiB per cluster more", "%.1f"}}},
		{"P10", "API latency", "Requests are sent at a fixed rate, whatever the answers do; the time runs from when a request was due.", Process, false, []Column{{"p99", "p99, ms", "%.3g"}, {"p50", "p50, ms", "%.3g"}, {"achieved", "answers/s", "%.0f"}, {"errors", "errors", "%.0f"}}},
		{"P11", "Calls of the store", "Requests to etcd, reads and writes, of an instantiation; those of looks at the status are among them.", Process, false, []Column{{"calls", "calls", "%.0f"}, {"bytes", "KiB written", "%.0f"}, seconds}},
		{"P12", "Charts rendered", "Of `" + Process + "` in P1 to P3.", Process, false, []Column{{"renders", "renders", "%.0f"}, {"distinct", "distinct", "%.0f"}}},
		{"P13", "Restart", "From kill -9 until the program is ready again, and until a change that is asked for then is durable.", Process, false, []Column{{"seconds", "ready, s", "%.3g"}, {"durable", "first change durable, s", "%.3g"}, {"extra", "commits that nobody asked for", "%.0f"}}},
		{"P14", "Blast radius", "An instantiation of which one part cannot work: until all other pairs are durable, beside a clean one.", "clean", false, []Column{seconds, {"arrived", "pairs arrived", "%.0f"}, {"wanted", "pairs that can", "%.0f"}}},
		{"P15", "A long life", "Commits one after the other on a branch of a hundred clusters: one manifest on one cluster, or one time in fifty a value of an app on all. The origin is repacked (`git repack --geometric`) every 200 commits, while commits go on, as Git servers do; the peer's never is. Memory is that of the benchmark, in which the writer is.", Writer, false, []Column{
			{"p99", "p99, ms", "%.3g"},
			{"p50", "p50, ms", "%.3g"},
			{"drift", "p99 of the last fifth, to the first", "%.2f"},
			{"rss", "MiB of memory", "%.0f"},
			{"size", "repository, MiB", "%.1f"},
			{"bloat", "to fully packed", "%.2f"},
			{"objects", "files of objects", "%.0f"},
			{"upkeep", "s of repacking", "%.1f"},
		}},
		{"P16", "A hosted provider's limits", "A first instantiation by REST on a GitHub test server that refuses what is above GitHub's limits of a token: 5,000 calls an hour, 900 points a minute. Calls are made; waiting is done on a virtual clock.", WriterGitHub, false, []Column{calls, virtual, commits, {"seconds", "s, without waiting", "%.3g"}}},
		{"P17", "From Git to a cluster", "From when a change is durable in Git until a real API server has all objects of it, by real Flux: `" + Process + "` with its backend for Flux, beside a repository that is laid out by hand. Changes come at random times of Flux's period; the time is their median.", Process, false, []Column{seconds, {"worst", "worst, s", "%.3g"}, {"install", "installation, s", "%.3g"}}},
	}
}
