package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/monitor/internal/sim/seed"
)

// seedFleet registers clusters.
func seedFleet(ctx context.Context, args []string, said io.Writer) error {
	var n names
	o, address, ca, branch, mode := seed.Options{}, "", "", "", ""
	repo := repository{what: "git"}
	f := flag.NewFlagSet("seed", flag.ContinueOnError)
	n.flags(f)
	f.StringVar(&address, "api", "http://127.0.0.1:9015", "the control plane")
	f.StringVar(&ca, "api.caFile", "", "file with certificates to trust instead of the system's")
	repo.flags(f, "repository that the control plane writes and the clusters read")
	f.StringVar(&branch, "git.branch", "main", "its branch")
	f.StringVar(&mode, "refMode", "branch", "how clusters share it: branch, shard, cluster")
	f.StringVar(&o.Type, "type", v2.PureGit, "how the clusters are fed: git, fluxcd")
	f.StringVar(&o.Sync, "sync", "simfleet", "name of the cluster-sync-object")
	f.StringVar(&o.Label, "label", "sim", "label on all clusters")
	f.IntVar(&o.Waves, "waves", 0, "label them wave-0, wave-1 ... in turn, so many")
	f.StringVar(&o.Project, "project", "sim", "project of the logical cloud")
	f.StringVar(&o.Cloud, "cloud", "sim", "logical cloud of level 0 that holds all clusters; empty: none")
	if err := parse(f, args, said); err != nil {
		return err
	}
	if err := n.check(); err != nil {
		return err
	}
	if repo.url == "" {
		return fmt.Errorf("%w: -git.url is missing", errUsage)
	}
	r, err := repo.open()
	if err != nil {
		return err
	}
	api, err := client.New(client.Options{BaseURL: address, CAFile: ca})
	if err != nil {
		return fmt.Errorf("%w: -api: %w", errUsage, err)
	}
	o.Clusters, o.Provider = n.all(""), n.provider
	o.Pairs = []map[string]v2.Scalar{{"url": v2.Scalar(r.URL)}, {"branch": v2.Scalar(branch)}, {"userName": v2.Scalar(r.User)}, {"refMode": v2.Scalar(mode)}}
	if token := r.Token.Reveal(); token != "" {
		o.Pairs = append(o.Pairs, map[string]v2.Scalar{"gitToken": v2.Scalar(token)})
	}
	began, done := time.Now(), atomic.Int64{}
	err = seed.Fleet(ctx, api, o, func() {
		if k := done.Add(1); k%1000 == 0 {
			fmt.Fprintf(said, "%d clusters registered\n", k)
		}
	})
	if err == nil {
		fmt.Fprintf(said, "%d clusters are registered, after %.1f s\n", n.clusters, time.Since(began).Seconds())
	}
	return err
}
