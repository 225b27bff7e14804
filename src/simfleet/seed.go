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

// seedFleet registers clusters with the control plane.
func seedFleet(ctx context.Context, args []string, errOut io.Writer) error {
	var n clusterFlags
	o, address, ca, branch, mode, tokens := seed.Options{}, "", "", "", "", ""
	repo, reports := repoFlags{prefix: "git"}, repoFlags{prefix: "status"}
	f := flag.NewFlagSet("seed", flag.ContinueOnError)
	n.register(f)
	f.StringVar(&address, "api", "http://127.0.0.1:9015", "the control plane; $EMCO_TOKEN is the API token, if it wants one")
	f.StringVar(&ca, "api.caFile", "", "file with certificates to trust, in place of the system's")
	repo.register(f, "repository that the control plane writes and the clusters read")
	reports.register(f, "repository that the clusters report to; the one that they read unless given")
	f.StringVar(&branch, "git.branch", "main", "branch of the repository")
	f.StringVar(&mode, "refMode", "branch", "how clusters share the branch: branch, shard, cluster")
	f.StringVar(&o.Type, "type", v2.PureGit, "gitOpsType of the clusters: git, fluxcd")
	f.StringVar(&o.Sync, "sync", "simfleet", "name of the cluster-sync-object")
	f.StringVar(&o.Label, "label", "sim", "label on all clusters")
	f.IntVar(&o.Waves, "waves", 0, "number of labels wave-0, wave-1 ..., which the clusters get in turn")
	f.StringVar(&o.Project, "project", "sim", "project of the logical cloud")
	f.StringVar(&o.Cloud, "cloud", "sim", "logical cloud of level 0 with all clusters; empty: none")
	f.StringVar(&tokens, "tokens", "", "the clusters report by HTTPS; write a new token for each to this file")
	if err := parse(f, args, errOut); err != nil {
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
	api, err := client.New(client.Options{BaseURL: address, CAFile: ca, Token: apiToken()})
	if err != nil {
		return fmt.Errorf("%w: -api: %w", errUsage, err)
	}
	for _, c := range n.list() {
		o.Clusters = append(o.Clusters, c.Cluster())
	}
	o.Provider = n.provider
	o.Pairs = append(pairs, map[string]v2.Scalar{"branch": v2.Scalar(branch)}, map[string]v2.Scalar{"refMode": v2.Scalar(mode)})
	if tokens != "" {
		o.Pairs = append(o.Pairs, map[string]v2.Scalar{"statusMode": "https"})
	}
	began, done := time.Now(), atomic.Int64{}
	err = seed.Fleet(ctx, api, o, func() {
		if k := done.Add(1); k%1000 == 0 {
			fmt.Fprintf(errOut, "%d clusters registered\n", k)
		}
	})
	if err == nil && tokens != "" {
		err = writeTokens(ctx, api, o, tokens)
	}
	if err == nil {
		fmt.Fprintf(errOut, "%d clusters registered in %.1f s\n", len(o.Clusters), time.Since(began).Seconds())
	}
	return err
}

// pairs returns the members of a sync object that locate the repository, without a token if
// there is none.
func (r *repoFlags) pairs(url, user, token string) ([]map[string]v2.Scalar, error) {
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

// writeTokens creates a token for each cluster. Only the owner may read the file.
func writeTokens(ctx context.Context, api *client.Client, o seed.Options, path string) error {
	made, err := seed.Tokens(ctx, api, o)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range o.Clusters {
		fmt.Fprintf(&text, "%s %s\n", v2.NewClusterKey(o.Provider, name), made[name])
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
