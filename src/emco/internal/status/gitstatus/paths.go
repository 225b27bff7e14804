package gitstatus

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxPathFiles limits the files of a cluster in upstream's path.
const maxPathFiles = 5000

// readPaths reads what clusters write into upstream's path on a shared branch:
// clusters/<cluster>/status/<id>/app/<app>/<id>-<app>, with one app each, and
// status/report.json, the header with the time. It fetches only changed files.
func (p *poller) readPaths(ctx context.Context) error {
	head, err := p.source.git.Head(ctx, p.location.repo, p.location.branch)
	if errs.Is(err, errs.NotFound) || err == nil && p.seen[p.location.branch] == head {
		return nil
	}
	if err != nil {
		return err
	}
	clusters := p.currentClusters()
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if err := p.readClusterPath(ctx, name, head); err != nil {
			return err
		}
	}
	p.seen[p.location.branch] = head
	return nil
}

// readClusterPath accepts what a cluster wrote since the last poll.
func (p *poller) readClusterPath(ctx context.Context, cluster v2.ClusterKey, head git.Hash) error {
	root := "clusters/" + string(cluster) + "/status"
	now := map[string]git.Hash{}
	for e, err := range p.source.git.Tree(ctx, p.location.repo, head, root) {
		if err != nil {
			return err
		}
		if len(now) < maxPathFiles {
			now[e.Path] = e.ID
		}
	}
	header := root + "/" + status.File
	if now[header] == "" || now[header] == p.files[header] {
		return nil // every change comes with a new header
	}
	doc := intake.Document{Cluster: cluster, Where: string(head), First: p.files[header] == ""}
	texts, err := p.fetchFiles(ctx, root, now)
	if err == nil {
		doc.Text, err = joinDocuments(texts, header)
	}
	if err != nil && !refusable(err) {
		return err
	}
	doc.Err = err
	rec, err := p.clusterState(ctx, cluster)
	if err == nil {
		err = p.accept(ctx, doc, rec)
	}
	if err != nil {
		return err
	}
	p.cacheFiles(root, now, texts)
	return nil
}

// refusable reports whether an error concerns the document and not the connection.
func refusable(err error) bool {
	return errs.Is(err, errs.TooLarge) || errs.Is(err, errs.Malformed)
}

// fetchFiles returns the files of a cluster and fetches those that changed.
func (p *poller) fetchFiles(ctx context.Context, root string, now map[string]git.Hash) (map[string][]byte, error) {
	out := map[string][]byte{}
	var missing []git.Hash
	for path, id := range now {
		if p.files[path] == id && p.docs[path] != nil {
			out[path] = p.docs[path]
		} else if !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	fetched, err := p.source.git.Blobs(ctx, p.location.repo, missing, status.MaxSize)
	if err != nil {
		return nil, err
	}
	total := 0
	for path, id := range now {
		if out[path] == nil {
			text, ok := fetched[id]
			if !ok {
				return nil, errs.E(errs.TooLarge, "read", path, errors.New("the file is above the limit or missing"))
			}
			out[path] = text
		}
		if total += len(out[path]); total > status.MaxSize {
			return nil, errs.E(errs.TooLarge, "read", root, errors.New("the files of the cluster exceed the limit together"))
		}
	}
	return out, nil
}

// joinDocuments makes one document of a header and the documents of apps. It returns a header of an
// unknown schema as it is, so that the check can name the schema.
func joinDocuments(texts map[string][]byte, header string) ([]byte, error) {
	var form struct{ Schema string }
	if err := json.Unmarshal(texts[header], &form); err != nil || form.Schema != status.Schema {
		return texts[header], nil
	}
	var all status.Report
	if err := unmarshal(texts[header], &all); err != nil {
		return nil, err
	}
	all.Apps = nil
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		if path == header {
			continue
		}
		var one status.Report
		if err := unmarshal(texts[path], &one); err != nil {
			return nil, err
		}
		if one.Cluster != all.Cluster || one.Schema != all.Schema {
			return nil, errs.E(errs.Malformed, "read", path, errors.New("it does not belong to the report of the cluster"))
		}
		all.Apps = append(all.Apps, one.Apps...)
	}
	return json.Marshal(all)
}

func unmarshal(text []byte, r *status.Report) error {
	if err := json.Unmarshal(text, r); err != nil {
		return errs.E(errs.Malformed, "read", "status report", errors.New("not a JSON document of a report"))
	}
	return nil
}

// cacheFiles keeps what the next poll need not fetch.
func (p *poller) cacheFiles(root string, now map[string]git.Hash, texts map[string][]byte) {
	below := func(path string) bool { return strings.HasPrefix(path, root+"/") }
	maps.DeleteFunc(p.files, func(path string, _ git.Hash) bool { return below(path) })
	maps.DeleteFunc(p.docs, func(path string, _ []byte) bool { return below(path) })
	maps.Copy(p.files, now)
	maps.Copy(p.docs, texts)
}
