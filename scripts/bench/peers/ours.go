package peers

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// perShard is the number of clusters on a branch.
const perShard = 1000

// Writer is the product's own writer, packages git/batch and git/plain as emco uses them: a job for all
// clusters of a branch, and all branches concurrently. Fleets above a thousand clusters have a branch
// for each thousand.
func Writer() Maker {
	return Maker{Name: figures.Writer, New: func(dir string) Peer { return &gitWriter{siteOrigin: siteOrigin{dir: dir}} }}
}

type gitWriter struct {
	siteOrigin
	host    *plain.Host
	commits *batch.Writers
}

func (p *gitWriter) Prepare(ctx context.Context, _ world.Spec, base *world.World) error {
	p.shard = shardOf
	if err := p.open(ctx, base); err != nil {
		return err
	}
	p.host = plain.New(plain.Options{})
	p.commits = batch.New(p.host, batch.Options{})
	return p.warm(ctx)
}

// warm makes the writer read the branch, like a writer that has run before.
func (p *gitWriter) warm(ctx context.Context) error {
	_, err := p.commits.Submit(ctx, batch.Job{Repo: p.site.Repo(), Branch: site.Branch, Title: "hello", Edits: []git.Edit{{Path: "hello", File: []byte("hello\n")}}})
	return err
}

func shardOf(cluster string) string {
	n, err := strconv.Atoi(cluster[1:])
	if err != nil || n < perShard {
		return site.Branch
	}
	return fmt.Sprintf("shard-%02d", n/perShard)
}

func (p *gitWriter) Apply(ctx context.Context, t Turn) (Cost, error) {
	jobs := map[string][]git.Edit{}
	for _, pair := range t.Pairs {
		branch := p.shard(pair.Cluster)
		jobs[branch] = append(jobs[branch], git.Edit{Path: pair.Dir(), Dir: pair.Files})
	}
	failures := make(chan error, len(jobs))
	for branch, edits := range jobs {
		go func() {
			_, err := p.commits.Submit(ctx, batch.Job{Repo: p.site.Repo(), Branch: branch, Title: "change", Edits: edits})
			failures <- err
		}()
	}
	var err error
	for range jobs {
		err = errors.Join(err, <-failures)
	}
	return ownFiles, err
}

func (p *gitWriter) Close(ctx context.Context) error {
	if p.commits != nil {
		p.commits.Close()
		_ = p.host.Close()
	}
	return p.siteOrigin.Close(ctx)
}

// Floor is the physical minimum: it hashes and compresses each distinct content once, on all cores, and
// writes it to disk once; then it pushes one small file. It does not arrange the contents as a commit,
// so it is a bound, not a competitor.
func Floor() Maker {
	return Maker{Name: figures.Floor, New: func(dir string) Peer { return &lowerBound{gitWriter: gitWriter{siteOrigin: siteOrigin{dir: dir}}} }}
}

type lowerBound struct {
	gitWriter
	head git.Hash
	turn int
}

func (p *lowerBound) Prepare(ctx context.Context, s world.Spec, _ *world.World) (err error) {
	if err = p.gitWriter.Prepare(ctx, s, nil); err == nil {
		p.head, err = p.host.Head(ctx, p.site.Repo(), site.Branch)
	}
	return err
}

func (p *lowerBound) Apply(ctx context.Context, t Turn) (Cost, error) {
	if err := durable(filepath.Join(p.dir, "floor"), packed(distinct(t.Pairs))); err != nil {
		return Cost{}, err
	}
	p.turn++
	edit := []git.Edit{{Path: "hello", File: fmt.Append(nil, p.turn)}}
	head, err := p.host.Commit(ctx, p.site.Repo(), site.Branch, p.head, edit, git.Message{Title: "floor"})
	p.head = head
	return ownFiles, err
}

// Want is nothing: a floor stores nothing.
func (p *lowerBound) Want(*world.World) world.State { return world.State{} }

// distinct lists each content once. Pairs that share a map share its contents.
func distinct(pairs []world.Pair) (out [][]byte) {
	seen := map[*byte]bool{}
	for _, p := range pairs {
		for _, text := range p.Files {
			if at := &text[0]; !seen[at] {
				seen[at] = true
				out = append(out, text)
			}
		}
	}
	return out
}

// packed hashes and compresses on all cores.
func packed(contents [][]byte) [][]byte {
	parts := make([][]byte, runtime.NumCPU())
	var all sync.WaitGroup
	for k := range parts {
		all.Go(func() {
			var out bytes.Buffer
			w, err := zlib.NewWriterLevel(&out, zlib.BestSpeed)
			for i := k; i < len(contents) && err == nil; i += len(parts) {
				sha1.Sum(contents[i])
				w.Reset(&out)
				_, err = w.Write(contents[i])
				err = errors.Join(err, w.Close())
			}
			parts[k] = out.Bytes()
		})
	}
	all.Wait()
	return parts
}

func durable(path string, parts [][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := f.Write(p); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}
