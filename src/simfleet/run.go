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

// runLimits are the flags about the end and the output of a run.
type runLimits struct {
	longest  time.Duration // 0: run until a signal
	settled  time.Duration // end when all clusters were settled for that long; 0: do not
	progress time.Duration // time between two lines
	asJSON   bool
}

// runFleet runs the clusters. It returns codeBehind if some are behind at the end.
func runFleet(ctx context.Context, args []string, out, errOut io.Writer) (int, error) {
	o, s, err := readRun(ctx, args, errOut)
	if err != nil {
		return codeOK, err
	}
	f, err := fleet.New(o)
	if err != nil {
		return codeOK, fmt.Errorf("%w: -status.control: %w", errUsage, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.longest > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.longest)
		defer cancel()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	last := s.follow(ctx, f, errOut)
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
	return codeOK, err
}

// follow prints progress until the run ends, and returns the last summary.
func (s runLimits) follow(ctx context.Context, f *fleet.Fleet, errOut io.Writer) fleet.Summary {
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
				fmt.Fprintln(errOut, sum.Line())
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

// readRun reads the flags, and the files that they name.
func readRun(ctx context.Context, args []string, errOut io.Writer) (fleet.Options, runLimits, error) {
	var (
		n                 clusterFlags
		o                 fleet.Options
		s                 runLimits
		do                stringList
		scriptFile, fetch string
		api, views        string
		tokens, ca        string
		desired           = repoFlags{prefix: "git"}
		reports           = repoFlags{prefix: "status"}
	)
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	n.register(f)
	desired.register(f, "repository that the clusters read")
	reports.register(f, "repository that they report to; default: the one that they read")
	f.StringVar(&o.Branch, "git.branch", "main", "branch that they read; {cluster} stands for <provider>+<name>, for a branch of each")
	f.StringVar(&api, "api", "", "control plane, to ask which shard or branch each cluster reads; empty: all read -git.branch")
	f.StringVar(&views, "git.viewPrefix", "clusters/", "prefix of branches for a single cluster, with -api")
	f.StringVar(&o.Prefix, "status.prefix", status.DefaultPrefix, "prefix of the branches that they report to")
	f.StringVar(&o.Control, "status.control", "", "control plane to report to by HTTPS, in place of Git: https://host; http only on this machine")
	f.StringVar(&tokens, "status.tokens", "", "file with their tokens, written by simfleet seed -tokens")
	f.StringVar(&ca, "status.controlCAFile", "", "file with certificates to trust there, in addition to the system's")
	f.BoolVar(&o.Silent, "silent", false, "do not report")
	f.DurationVar(&o.Interval, "interval", 30*time.Second, "time between two polls of the branch, plus or minus a tenth")
	f.DurationVar(&o.Apply, "apply", 2*time.Second, "longest time to apply a change")
	f.DurationVar(&o.Settle, "settle", 0, "about how long workloads are in progress after that")
	f.DurationVar(&o.Report, "status.interval", 10*time.Second, "shortest time between two reports of a cluster")
	f.DurationVar(&o.Heartbeat, "status.heartbeat", time.Minute, "longest time between two reports of a cluster")
	f.StringVar(&fetch, "fetch", "shared", "shared: fetch each branch once for all clusters, which costs the server less; own: fetch for each cluster alone, as real ones do")
	f.DurationVar(&o.Refresh, "fetch.every", time.Second, "time between two polls of a branch with -fetch shared")
	f.IntVar(&o.Workers, "workers", 16, "number of clusters that run at the same time")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of random numbers")
	f.StringVar(&scriptFile, "script", "", "YAML file with seed and orders")
	f.Var(&do, "do", "an order, such as '30s 10% offline'; may be repeated. Actions: offline, online, lag DURATION, fail KIND/NAME, heal, drift KIND/NAME")
	f.DurationVar(&s.longest, "for", 0, "how long to run; 0: until a signal")
	f.DurationVar(&s.settled, "settled", 0, "end when for that long all clusters that are online have applied what is in Git and have reported it; 0: do not")
	f.DurationVar(&s.progress, "progress", 5*time.Second, "time between two lines of progress; 0: none")
	f.BoolVar(&s.asJSON, "json", false, "print the summary as JSON")
	if err := parse(f, args, errOut); err != nil {
		return o, s, err
	}
	if err := n.check(); err != nil {
		return o, s, err
	}
	if fetch != "shared" && fetch != "own" || desired.url == "" || o.Workers < 1 || o.Interval <= 0 {
		return o, s, fmt.Errorf("%w: -git.url is required, -fetch must be shared or own, -workers and -interval must be above zero", errUsage)
	}
	o.Clusters, o.Own, o.Agent = n.list(), fetch == "own", "simfleet"
	if err := readOrders(&o, scriptFile, do); err != nil {
		return o, s, fmt.Errorf("%w: %w", errUsage, err)
	}
	err := openRepositories(&o, desired, reports)
	if err == nil && o.Control != "" {
		err = readTokens(&o, tokens, ca)
	}
	if err == nil && api != "" {
		o.Branches, err = readBranches(ctx, api, n.provider, o.Branch, views)
	}
	return o, s, err
}

// readTokens reads the credentials for reports by HTTPS.
func readTokens(o *fleet.Options, tokens, ca string) error {
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

func readBranches(ctx context.Context, api, provider, branch, views string) (map[string]string, error) {
	c, err := client.New(client.Options{BaseURL: api, Token: apiToken()})
	if err != nil {
		return nil, fmt.Errorf("%w: -api: %w", errUsage, err)
	}
	return seed.Branches(ctx, c, provider, branch, views)
}

// readOrders reads the orders of a script and those of flags.
func readOrders(o *fleet.Options, file string, do []string) error {
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

func openRepositories(o *fleet.Options, desired, reports repoFlags) (err error) {
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
