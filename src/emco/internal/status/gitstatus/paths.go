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
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxPathFiles bounds the files of a cluster in EMCO's path.
const maxPathFiles = 5000

// lookAtPaths reads what clusters write into EMCO's path on a shared branch:
// clusters/<cluster>/status/<id>/app/<app>/<id>-<app>, with one app each, and beside
// them status/report.json, which says when. Only files that changed are fetched.
func (p *poller) lookAtPaths(ctx context.Context) error {
	head, err := p.s.git.Head(ctx, p.at.repo, p.at.branch)
	if errs.Is(err, errs.NotFound) || err == nil && p.seen[p.at.branch] == head {
		return nil
	}
	if err != nil {
		return err
	}
	clusters := p.present()
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if err := p.lookAtPath(ctx, name, head); err != nil {
			return err
		}
	}
	p.seen[p.at.branch] = head
	return nil
}

// lookAtPath takes in what a cluster wrote, if it wrote something.
func (p *poller) lookAtPath(ctx context.Context, cluster string, head git.Hash) error {
	root := "clusters/" + cluster + "/status"
	now := map[string]git.Hash{}
	for e, err := range p.s.git.Tree(ctx, p.at.repo, head, root) {
		if err != nil {
			return err
		}
		if len(now) < maxPathFiles {
			now[e.Path] = e.ID
		}
	}
	header := root + "/" + status.File
	if now[header] == "" || now[header] == p.files[header] {
		return nil // all that changes comes with a new header
	}
	doc := intake.Document{Cluster: cluster, Where: string(head), First: p.files[header] == ""}
	texts, err := p.texts(ctx, root, now)
	if err == nil {
		doc.Text, err = joined(texts, header)
	}
	if err != nil && !refusable(err) {
		return err
	}
	doc.Err = err
	if err := p.take(ctx, doc); err != nil {
		return err
	}
	p.remember(root, now, texts)
	return nil
}

// refusable says whether an error is about the document and not about the way to it.
func refusable(err error) bool {
	return errs.Is(err, errs.TooLarge) || errs.Is(err, errs.Malformed)
}

// texts returns the files of a cluster, of which those that did not change are known.
func (p *poller) texts(ctx context.Context, root string, now map[string]git.Hash) (map[string][]byte, error) {
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
	fetched, err := p.s.git.Blobs(ctx, p.at.repo, missing, status.MaxSize)
	if err != nil {
		return nil, err
	}
	total := 0
	for path, id := range now {
		if out[path] == nil {
			text, ok := fetched[id]
			if !ok {
				return nil, errs.E(errs.TooLarge, "read", path, errors.New("the file is above the limit, or cannot be had"))
			}
			out[path] = text
		}
		if total += len(out[path]); total > status.MaxSize {
			return nil, errs.E(errs.TooLarge, "read", root, errors.New("the files of the cluster together are above the limit"))
		}
	}
	return out, nil
}

// joined makes one document of a header and the documents of apps. A header of a form
// that is not known here is returned as it is: who reads it says so.
func joined(texts map[string][]byte, header string) ([]byte, error) {
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

// remember keeps what the next look need not fetch.
func (p *poller) remember(root string, now map[string]git.Hash, texts map[string][]byte) {
	below := func(path string) bool { return strings.HasPrefix(path, root+"/") }
	maps.DeleteFunc(p.files, func(path string, _ git.Hash) bool { return below(path) })
	maps.DeleteFunc(p.docs, func(path string, _ []byte) bool { return below(path) })
	maps.Copy(p.files, now)
	maps.Copy(p.docs, texts)
}
