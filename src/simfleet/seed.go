package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/seed"
)

// seedFleet registers clusters.
func seedFleet(ctx context.Context, args []string, said io.Writer) error {
	var n names
	o, address, ca, branch, mode, tokens := seed.Options{}, "", "", "", "", ""
	repo, reports := repository{what: "git"}, repository{what: "status"}
	f := flag.NewFlagSet("seed", flag.ContinueOnError)
	n.flags(f)
	f.StringVar(&address, "api", "http://127.0.0.1:9015", "the control plane")
	f.StringVar(&ca, "api.caFile", "", "file with certificates to trust instead of the system's")
	repo.flags(f, "repository that the control plane writes and the clusters read")
	reports.flags(f, "repository that the clusters report to; the one that they read unless given")
	f.StringVar(&branch, "git.branch", "main", "its branch")
	f.StringVar(&mode, "refMode", "branch", "how clusters share it: branch, shard, cluster")
	f.StringVar(&o.Type, "type", v2.PureGit, "how the clusters are fed: git, fluxcd")
	f.StringVar(&o.Sync, "sync", "simfleet", "name of the cluster-sync-object")
	f.StringVar(&o.Label, "label", "sim", "label on all clusters")
	f.IntVar(&o.Waves, "waves", 0, "label them wave-0, wave-1 ... in turn, so many")
	f.StringVar(&o.Project, "project", "sim", "project of the logical cloud")
	f.StringVar(&o.Cloud, "cloud", "sim", "logical cloud of level 0 that holds all clusters; empty: none")
	f.StringVar(&tokens, "tokens", "", "have the clusters report by HTTPS, and write a new token of each into this file")
	if err := parse(f, args, said); err != nil {
		return err
	}
	if err := n.check(); err != nil {
		return err
	}
	if repo.url == "" {
		return fmt.Errorf("%w: -git.url is missing", errUsage)
	}
	pairs, err := repo.pairs("url", "userName", "gitToken")
	if err != nil {
		return err
	}
	if reports.url != "" {
		more, err := reports.pairs("statusUrl", "statusUserName", "statusToken")
		if err != nil {
			return err
		}
		pairs = append(pairs, more...)
	}
	api, err := client.New(client.Options{BaseURL: address, CAFile: ca})
	if err != nil {
		return fmt.Errorf("%w: -api: %w", errUsage, err)
	}
	o.Clusters, o.Provider = n.all(""), n.provider
	o.Pairs = append(pairs, map[string]v2.Scalar{"branch": v2.Scalar(branch)}, map[string]v2.Scalar{"refMode": v2.Scalar(mode)})
	if tokens != "" {
		o.Pairs = append(o.Pairs, map[string]v2.Scalar{"statusMode": "https"})
	}
	began, done := time.Now(), atomic.Int64{}
	err = seed.Fleet(ctx, api, o, func() {
		if k := done.Add(1); k%1000 == 0 {
			fmt.Fprintf(said, "%d clusters registered\n", k)
		}
	})
	if err == nil && tokens != "" {
		err = writeTokens(ctx, api, o, tokens)
	}
	if err == nil {
		fmt.Fprintf(said, "%d clusters are registered, after %.1f s\n", n.clusters, time.Since(began).Seconds())
	}
	return err
}

// pairs are the keys of a sync object that say where the repository is; the token is left
// out if there is none.
func (r *repository) pairs(url, user, token string) ([]map[string]v2.Scalar, error) {
	at, err := r.open()
	if err != nil {
		return nil, err
	}
	out := []map[string]v2.Scalar{{url: v2.Scalar(at.URL)}, {user: v2.Scalar(at.User)}}
	if secret := at.Token.Reveal(); secret != "" {
		out = append(out, map[string]v2.Scalar{token: v2.Scalar(secret)})
	}
	return out, nil
}

// writeTokens makes a token for each cluster. The file is for its owner only.
func writeTokens(ctx context.Context, api *client.Client, o seed.Options, path string) error {
	made, err := seed.Tokens(ctx, api, o)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range o.Clusters {
		fmt.Fprintf(&text, "%s+%s %s\n", o.Provider, name, made[name])
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
