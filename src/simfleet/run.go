package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/fleet"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/seed"
)

// stay says when a run ends, and what it says until then.
type stay struct {
	most     time.Duration // 0: until a signal comes
	settled  time.Duration // ends after all were settled for so long; 0: it does not
	progress time.Duration // between two lines
	asJSON   bool
}

// runFleet has clusters live. The code is codeBehind if some are not where Git says at the end.
func runFleet(ctx context.Context, args []string, out, said io.Writer) (int, error) {
	o, s, err := readRun(ctx, args, said)
	if err != nil {
		return codeFine, err
	}
	f, err := fleet.New(o)
	if err != nil {
		return codeFine, fmt.Errorf("%w: -status.control: %w", errUsage, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.most > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.most)
		defer cancel()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	last := s.follow(ctx, f, said)
	cancel()
	<-ended
	if s.asJSON {
		err = json.NewEncoder(out).Encode(last)
	} else {
		_, err = fmt.Fprint(out, last.Text())
	}
	if !last.Settled() {
		return codeBehind, err
	}
	return codeFine, err
}

// follow says how it goes until the end, and returns how it was then.
func (s stay) follow(ctx context.Context, f *fleet.Fleet, said io.Writer) fleet.Summary {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // when all were settled; zero if they are not
	next := time.Now().Add(s.progress)
	for {
		select {
		case <-ctx.Done():
			return f.Summary()
		case now := <-tick.C:
			sum := f.Summary()
			if s.progress > 0 && now.After(next) {
				fmt.Fprintln(said, sum.Line())
				next = now.Add(s.progress)
			}
			switch {
			case !sum.Settled():
				since = time.Time{}
			case since.IsZero():
				since = now
			}
			if s.settled > 0 && !since.IsZero() && now.Sub(since) >= s.settled {
				return sum
			}
		}
	}
}

// readRun reads flags and the script.
func readRun(ctx context.Context, args []string, said io.Writer) (fleet.Options, stay, error) {
	var (
		n                 names
		o                 fleet.Options
		s                 stay
		do                lines
		scriptFile, fetch string
		api, views        string
		tokens, ca        string
		desired           = repository{what: "git"}
		reports           = repository{what: "status"}
	)
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	n.flags(f)
	desired.flags(f, "repository that the clusters read")
	reports.flags(f, "repository that they report to; the one that they read unless given")
	f.StringVar(&o.Branch, "git.branch", "main", "branch that they read; {cluster} stands for <provider>+<name>, for a branch of each")
	f.StringVar(&api, "api", "", "control plane that is asked on which shard or branch of its own each cluster is; none: all read -git.branch")
	f.StringVar(&views, "git.viewPrefix", "clusters/", "what the names of branches of one cluster begin with, with -api")
	f.StringVar(&o.Prefix, "status.prefix", status.DefaultPrefix, "prefix of the branches that they report to")
	f.StringVar(&o.Control, "status.control", "", "control plane that they report to by HTTPS, and not through Git: https://host; http only on this machine")
	f.StringVar(&tokens, "status.tokens", "", "file with their tokens there, as simfleet seed -tokens writes it")
	f.StringVar(&ca, "status.controlCAFile", "", "file with certificates to trust there besides the system's")
	f.BoolVar(&o.Silent, "silent", false, "they do not report")
	f.DurationVar(&o.Interval, "interval", 30*time.Second, "time between two looks at the branch, a tenth more or less")
	f.DurationVar(&o.Apply, "apply", 2*time.Second, "most time to apply what came")
	f.DurationVar(&o.Settle, "settle", 0, "time until workloads are well after that, about")
	f.DurationVar(&o.Report, "status.interval", 10*time.Second, "least time between two reports of a cluster")
	f.DurationVar(&o.Heartbeat, "status.heartbeat", time.Minute, "a report without news is sent after so long")
	f.StringVar(&fetch, "fetch", "shared", "shared: each branch is fetched once for all, which spares the server; own: each cluster fetches by itself, as real ones do")
	f.DurationVar(&o.Refresh, "fetch.every", time.Second, "how often a branch is looked at with -fetch shared")
	f.IntVar(&o.Workers, "workers", 16, "clusters that are at work at once; their goroutines are all there are")
	f.Uint64Var(&o.Seed, "seed", 1, "of random numbers")
	f.StringVar(&scriptFile, "script", "", "file of orders: YAML with seed and orders")
	f.Var(&do, "do", "an order, such as '30s 10% offline'; may be given often. Verbs: offline, online, lag DURATION, fail KIND/NAME, heal, drift KIND/NAME")
	f.DurationVar(&s.most, "for", 0, "end after so long; 0: when a signal comes")
	f.DurationVar(&s.settled, "settled", 0, "end when for so long all that are online hold what Git says and have reported it; 0: do not")
	f.DurationVar(&s.progress, "progress", 5*time.Second, "time between two lines of progress; 0: none")
	f.BoolVar(&s.asJSON, "json", false, "print the summary as JSON")
	if err := parse(f, args, said); err != nil {
		return o, s, err
	}
	if err := n.check(); err != nil {
		return o, s, err
	}
	if fetch != "shared" && fetch != "own" || desired.url == "" || o.Workers < 1 || o.Interval <= 0 {
		return o, s, fmt.Errorf("%w: -git.url must be given, -fetch be shared or own, -workers and -interval be above zero", errUsage)
	}
	o.Clusters, o.Own, o.Agent = n.all(n.provider+"+"), fetch == "own", "simfleet"
	if err := commands(&o, scriptFile, do); err != nil {
		return o, s, fmt.Errorf("%w: %w", errUsage, err)
	}
	err := repositories(&o, desired, reports)
	if err == nil && o.Control != "" {
		err = access(&o, tokens, ca)
	}
	if err == nil && api != "" {
		o.Branches, err = branches(ctx, api, n.provider, o.Branch, views)
	}
	return o, s, err
}

// access reads what the clusters need to report by HTTPS.
func access(o *fleet.Options, tokens, ca string) error {
	if tokens == "" {
		return fmt.Errorf("%w: -status.control needs -status.tokens", errUsage)
	}
	text, err := os.ReadFile(tokens)
	if err != nil {
		return fmt.Errorf("-status.tokens: %w", err)
	}
	o.Tokens = map[string]git.Secret{}
	for line := range strings.Lines(string(text)) {
		if cluster, token, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			o.Tokens[cluster] = git.Secret(token)
		}
	}
	if ca != "" {
		text, err = os.ReadFile(ca)
		o.CA = string(text)
	}
	return err
}

func branches(ctx context.Context, api, provider, branch, views string) (map[string]string, error) {
	c, err := client.New(client.Options{BaseURL: api})
	if err != nil {
		return nil, fmt.Errorf("%w: -api: %w", errUsage, err)
	}
	return seed.Branches(ctx, c, provider, branch, views)
}

// commands reads the orders of a script and of flags.
func commands(o *fleet.Options, file string, do []string) error {
	if file != "" {
		s, err := script.Read(file)
		if err != nil {
			return err
		}
		if s.Seed != 0 {
			o.Seed = s.Seed
		}
		do = append(s.Orders, do...)
	}
	var err error
	o.Orders, err = script.ParseAll(do)
	return err
}

func repositories(o *fleet.Options, desired, reports repository) (err error) {
	if o.Repo, err = desired.open(); err != nil {
		return err
	}
	if reports.url == "" {
		o.Status = o.Repo
		return nil
	}
	o.Status, err = reports.open()
	return err
}
