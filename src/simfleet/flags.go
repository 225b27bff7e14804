package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// clusterFlags are the flags of both commands that name the clusters.
type clusterFlags struct {
	clusters, first         int
	provider, prefix, names string
}

func (n *clusterFlags) register(f *flag.FlagSet) {
	f.IntVar(&n.clusters, "clusters", 100, "how many clusters")
	f.IntVar(&n.first, "first", 0, "number of the first cluster, for several processes that share a fleet")
	f.StringVar(&n.provider, "provider", "sim", "their cluster provider")
	f.StringVar(&n.prefix, "name", "c", "prefix of their names; a number of five digits follows")
	f.StringVar(&n.names, "names", "", "their names, separated by commas, in place of -clusters, -first and -name")
}

func (n *clusterFlags) check() error {
	if n.clusters < 1 || n.first < 0 {
		return fmt.Errorf("%w: -clusters must be at least 1, and -first not below 0", errUsage)
	}
	seen := map[v2.ClusterKey]bool{}
	for _, c := range n.list() {
		if c.Cluster() == "" || seen[c] {
			return fmt.Errorf("%w: -names contains %q twice, or an empty name", errUsage, c.Cluster())
		}
		seen[c] = true
	}
	return nil
}

// list returns the clusters.
func (n *clusterFlags) list() []v2.ClusterKey {
	if n.names != "" {
		var out []v2.ClusterKey
		for name := range strings.SplitSeq(n.names, ",") {
			out = append(out, v2.NewClusterKey(n.provider, name))
		}
		return out
	}
	out := make([]v2.ClusterKey, n.clusters)
	for i := range out {
		out[i] = v2.NewClusterKey(n.provider, fmt.Sprintf("%s%05d", n.prefix, n.first+i))
	}
	return out
}

// repoFlags are the flags of a repository. The token is in a file or a variable, so that no
// list of processes shows it.
type repoFlags struct {
	prefix               string // of the names of the flags
	url, user, tokenFile string
	caFile               string
}

func (r *repoFlags) register(f *flag.FlagSet, text string) {
	f.StringVar(&r.url, r.prefix+".url", "", text)
	f.StringVar(&r.user, r.prefix+".user", "simfleet", "login name")
	f.StringVar(&r.tokenFile, r.prefix+".tokenFile", "", "file with the token; or the variable "+r.variable())
	f.StringVar(&r.caFile, r.prefix+".caFile", "", "file with certificates to trust, in addition to the system's")
}

func (r *repoFlags) variable() string { return strings.ToUpper(r.prefix) + "_TOKEN" }

func (r *repoFlags) open() (git.Repo, error) {
	out := git.Repo{URL: r.url, User: r.user, Token: git.Secret(os.Getenv(r.variable()))}
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return out, fmt.Errorf("-%s.tokenFile: %w", r.prefix, err)
		}
		out.Token = git.Secret(strings.TrimSpace(string(text)))
	}
	if r.caFile != "" {
		text, err := os.ReadFile(r.caFile)
		if err != nil {
			return out, fmt.Errorf("-%s.caFile: %w", r.prefix, err)
		}
		out.CA = string(text)
	}
	return out, nil
}

// stringList is a flag that may be repeated.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, "; ") }

// Set adds a value.
func (l *stringList) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// apiToken returns the token for the control plane's API; empty for none.
func apiToken() client.Token { return client.Token(os.Getenv("EMCO_TOKEN")) }

// parse parses flags. Unknown flags and other arguments are errUsage.
func parse(f *flag.FlagSet, args []string, errOut io.Writer) error {
	f.SetOutput(errOut)
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: see simfleet %s -h", errUsage, f.Name())
	case f.NArg() > 0:
		return fmt.Errorf("%w: %q is not a flag", errUsage, f.Arg(0))
	}
	return nil
}
