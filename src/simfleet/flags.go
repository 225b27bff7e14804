package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// names are the flags by which both commands name the clusters.
type names struct {
	clusters, first  int
	provider, prefix string
}

func (n *names) flags(f *flag.FlagSet) {
	f.IntVar(&n.clusters, "clusters", 100, "how many clusters")
	f.IntVar(&n.first, "first", 0, "number of the first one, for several processes that share a fleet")
	f.StringVar(&n.provider, "provider", "sim", "their cluster provider")
	f.StringVar(&n.prefix, "name", "c", "what their names begin with; a number of five digits follows")
}

func (n *names) check() error {
	if n.clusters < 1 || n.first < 0 {
		return fmt.Errorf("%w: -clusters must be at least 1, and -first not below 0", errUsage)
	}
	return nil
}

// all lists the names, each after before.
func (n *names) all(before string) []string {
	out := make([]string, n.clusters)
	for i := range out {
		out[i] = fmt.Sprintf("%s%s%05d", before, n.prefix, n.first+i)
	}
	return out
}

// repository is a repository by flags; the token is in a file or a variable, so that no
// list of processes shows it.
type repository struct {
	what                 string // how its flags begin
	url, user, tokenFile string
	caFile               string
}

func (r *repository) flags(f *flag.FlagSet, text string) {
	f.StringVar(&r.url, r.what+".url", "", text)
	f.StringVar(&r.user, r.what+".user", "simfleet", "login name there")
	f.StringVar(&r.tokenFile, r.what+".tokenFile", "", "file with the token; or the variable "+r.variable())
	f.StringVar(&r.caFile, r.what+".caFile", "", "file with certificates to trust besides the system's")
}

func (r *repository) variable() string { return strings.ToUpper(r.what) + "_TOKEN" }

func (r *repository) open() (git.Repo, error) {
	out := git.Repo{URL: r.url, User: r.user, Token: git.Secret(os.Getenv(r.variable()))}
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return out, fmt.Errorf("-%s.tokenFile: %w", r.what, err)
		}
		out.Token = git.Secret(strings.TrimSpace(string(text)))
	}
	if r.caFile != "" {
		text, err := os.ReadFile(r.caFile)
		if err != nil {
			return out, fmt.Errorf("-%s.caFile: %w", r.what, err)
		}
		out.CA = string(text)
	}
	return out, nil
}

// lines are a flag that may be given often.
type lines []string

func (l *lines) String() string { return strings.Join(*l, "; ") }

// Set adds one.
func (l *lines) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// parse reads flags. What is not known, or left over, is the caller's mistake.
func parse(f *flag.FlagSet, args []string, said io.Writer) error {
	f.SetOutput(said)
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: see simfleet %s -h", errUsage, f.Name())
	case f.NArg() > 0:
		return fmt.Errorf("%w: %q is no flag", errUsage, f.Arg(0))
	}
	return nil
}
