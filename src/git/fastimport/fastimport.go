package fastimport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Options tune a Host. Zero values mean the defaults given here.
type Options struct {
	Git       string                 // the git program; "git"
	Config    string                 // file with settings for it, as in ~/.gitconfig; none
	SSHConfig string                 // file with settings for ssh, as in ~/.ssh/config; none
	Dir       string                 // folder for what is known, emptied at first use; one of its own
	AllowFile bool                   // file:// URLs; for tests and demos
	Timeout   time.Duration          // for one whole call; 2 minutes
	Runs      int                    // calls that have the program run at the same time; 4
	MaxRepos  int                    // repositories of which something is known; 64, the one used longest ago goes
	MaxDisk   int64                  // bytes that are known of a repository, and that one fetch may bring; 1 GiB
	MaxBlob   int64                  // bytes of one object; 128 MiB
	Admit     func(netip.Addr) error // says which addresses may be dialled; all but link-local, multicast and unspecified ones
	Budget    git.Budget             // of which conversations are spent as reads; git.Free
	Log       *slog.Logger           // for debug lines; none
}

func (o Options) withDefaults() Options {
	if o.Git == "" {
		o.Git = "git"
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Runs <= 0 {
		o.Runs = 4
	}
	if o.MaxRepos <= 0 {
		o.MaxRepos = 64
	}
	if o.MaxDisk <= 0 {
		o.MaxDisk = 1 << 30
	}
	if o.MaxBlob <= 0 {
		o.MaxBlob = 128 << 20
	}
	if o.Admit == nil {
		o.Admit = transport.AdmitPublic
	}
	if o.Budget == nil {
		o.Budget = git.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Host has the git program do the work. Make it with New; Close it when done.
type Host struct {
	opt   Options
	slots chan struct{} // one for each call that may have the program run

	mu    sync.Mutex
	dir   string // empty: not made yet
	repos map[git.Repo]*cache
	made  int    // caches, for their names
	clock uint64 // order of use
}

// New returns a host.
func New(o Options) *Host {
	o = o.withDefaults()
	return &Host{opt: o, slots: make(chan struct{}, o.Runs), repos: map[git.Repo]*cache{}}
}

// Head returns the commit that branch points at.
func (h *Host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	if err := git.CheckBranch(branch); err != nil {
		return "", err
	}
	j, done, err := h.begin(ctx, r, "head")
	if err != nil {
		return "", err
	}
	defer done()
	id, err := j.head(branch)
	if err == nil && id == "" {
		err = errs.E(errs.NotFound, "head", r.URL, errors.New("no branch "+branch))
	}
	return id, j.fail(err)
}

// heads is the name space of branches.
const heads = "refs/heads/"

// head asks where a branch is; empty if there is none.
func (j *job) head(branch string) (git.Hash, error) {
	at, err := j.heads(branch)
	return at[branch], err
}

// heads asks where branches are; empty for those that are not there.
func (j *job) heads(branches ...string) (map[string]git.Hash, error) {
	args, at := []string{"ls-remote", "--quiet", "origin"}, map[string]git.Hash{}
	for _, name := range branches {
		args, at[name] = append(args, heads+name), ""
	}
	out, err := j.remote(run{args: args, most: maxListing})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, ok := strings.CutPrefix(ref, heads)
		if _, asked := at[name]; !ok || !asked { // a pattern fits the ends of other names, too
			continue
		}
		if _, err := tree.ParseID(git.Hash(id)); err != nil {
			return nil, err
		}
		at[name] = git.Hash(id)
	}
	return at, nil
}

// Tree lists what is below a path at a commit.
func (h *Host) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		entries, err := h.list(ctx, r, at, under)
		if err != nil {
			yield(git.Entry{}, err)
			return
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield(git.Entry{}, transport.Fail(ctx, r, "tree", err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (h *Host) list(ctx context.Context, r git.Repo, at git.Hash, under string) ([]git.Entry, error) {
	_, err := tree.ParseID(at)
	if err == nil && under != "" {
		err = git.CheckPath(under)
	}
	if err != nil {
		return nil, err
	}
	j, done, err := h.begin(ctx, r, "tree")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := j.open(at); err != nil {
		return nil, j.fail(err)
	}
	args := []string{"ls-tree", "-r", "-z", "--full-tree", string(at)}
	if under != "" {
		args = append(args, "--", under)
	}
	out, err := j.local(run{args: args, most: maxListing})
	if err != nil {
		return nil, j.fail(err)
	}
	return j.entries(out)
}

// entries reads what git ls-tree lists.
func (j *job) entries(listing []byte) (entries []git.Entry, err error) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(listing, []byte{0}), []byte{0}) {
		if len(line) == 0 {
			continue
		}
		head, path, ok := strings.Cut(string(line), "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return nil, j.fail(errors.New("the git program lists what is no entry"))
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			return nil, j.fail(err)
		}
		entries = append(entries, git.Entry{Path: path, Mode: uint32(mode), ID: git.Hash(fields[2])})
	}
	return entries, nil
}

// Blob returns a file's content.
func (h *Host) Blob(ctx context.Context, r git.Repo, id git.Hash) ([]byte, error) {
	want, err := tree.ParseID(id)
	if err != nil {
		return nil, err
	}
	j, done, err := h.begin(ctx, r, "blob")
	if err != nil {
		return nil, err
	}
	defer done()
	content, err := j.blob(want)
	return content, j.fail(err)
}

// blob returns a file, which is fetched if it is not here. A server that gives out only what
// branches point at is asked for all of these, without their past.
func (j *job) blob(id tree.ID) ([]byte, error) {
	if err := j.ready(); err != nil {
		return nil, err
	}
	content, err := j.object(id, "blob")
	for _, what := range []string{id.String(), "+refs/heads/*:refs/emco/heads/*"} {
		if !errs.Is(err, errs.NotFound) {
			break
		}
		if err = j.fetch("--no-filter", what); err != nil && !errs.Is(err, errs.NotFound) {
			return nil, err
		}
		content, err = j.object(id, "blob")
	}
	return content, err
}

// object reads an object that is here; NotFound if it is not, or of another kind.
func (j *job) object(id tree.ID, kind string) ([]byte, error) {
	b, err := j.batch()
	if err != nil {
		return nil, err
	}
	defer b.close()
	return b.read(id, kind)
}

// batch is a git cat-file that is asked for one object after the other.
type batch struct {
	child *child
	in    io.WriteCloser
	out   *bufio.Reader
	most  int64
}

func (j *job) batch() (*batch, error) {
	c, err := j.start(run{args: []string{"cat-file", "--batch"}})
	if err != nil {
		return nil, err
	}
	return &batch{child: c, in: c.in, out: bufio.NewReader(c.out), most: j.h.opt.MaxBlob}, nil
}

// read returns an object of a kind.
func (b *batch) read(id tree.ID, kind string) ([]byte, error) {
	if _, err := io.WriteString(b.in, id.String()+"\n"); err != nil {
		return nil, err
	}
	line, err := b.out.ReadString('\n')
	if err != nil {
		return nil, b.ended(err)
	}
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return nil, errMissing
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return nil, err
	}
	if size > b.most {
		return nil, errs.E(errs.TooLarge, "", "", errors.New("an object of "+fields[2]+" bytes"))
	}
	content := make([]byte, size+1) // and a line break
	if _, err := io.ReadFull(b.out, content); err != nil {
		return nil, err
	}
	if fields[1] != kind {
		return nil, errs.E(errs.NotFound, "", "", errors.New("the object is a "+fields[1]+", not a "+kind))
	}
	return content[:size:size], nil
}

var errMissing = errs.E(errs.NotFound, "", "", errors.New("no such object"))

// ended says why the program has ended: an object that is known to be on the server, and is
// not here, is more than it stands.
func (b *batch) ended(err error) error {
	_ = b.child.end()
	if said := b.child.said.String(); strings.Contains(said, "promisor") {
		return errMissing
	} else if said != "" {
		return &programError{command: "cat-file", said: said}
	}
	return err
}

// tree returns a tree; it is a tree.Reader.
func (b *batch) tree(id tree.ID) (tree.Tree, error) {
	raw, err := b.read(id, "tree")
	if errs.Is(err, errs.NotFound) {
		return nil, tree.Missing(id)
	}
	if err != nil {
		return nil, err
	}
	return tree.Decode(raw)
}

// close ends the program. What it answered was read to its end, or does not matter.
func (b *batch) close() {
	_ = b.in.Close()
	_ = b.child.end()
}
