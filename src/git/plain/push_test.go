package plain_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// fakeServer sends the answers of a test, where no real server would.
type fakeServer struct {
	advert  string        // of both services: a commit and the name of a branch; empty: no branch
	caps    string        // capabilities
	replies []string      // to requests after the advertisement, in order; the last one stays
	posts   atomic.Uint64 // requests after an advertisement
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		service := r.URL.Query().Get("service")
		w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
		ref := f.advert
		if ref == "" {
			ref = strings.Repeat("0", 40) + " capabilities^{}"
		}
		fmt.Fprint(w, pkt("# service="+service+"\n"), "0000", pkt(ref+"\x00"+f.caps+"\n"), "0000")
		return
	}
	n := int(f.posts.Add(1))
	w.Header().Set("Content-Type", "application/x-"+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+"-result")
	fmt.Fprint(w, f.replies[min(n, len(f.replies))-1])
}

func pkt(line string) string { return fmt.Sprintf("%04x%s", len(line)+4, line) }

func (f *fakeServer) start(t *testing.T) git.Repo {
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return git.Repo{URL: srv.URL + "/repo.git", User: userName, Token: token}
}

const someCommit = "1111111111111111111111111111111111111111"

// A push has happened only if the server reports so.
func TestReportsOfPushes(t *testing.T) {
	t.Parallel()
	const ok = "ok refs/heads/main\n"
	for _, c := range []struct {
		name  string
		reply string
		good  bool
		kind  errs.Kind
	}{
		{"all is well", pkt("unpack ok\n") + pkt(ok) + "0000", true, errs.Internal},
		{"the objects were not unpacked", pkt("unpack index-pack abnormal exit\n") + pkt(ok) + "0000", false, errs.Unavailable},
		{"nothing about the branch", pkt("unpack ok\n") + "0000", false, errs.Unavailable},
		{"nothing", "0000", false, errs.Unavailable},
		{"cut", "", false, errs.Unavailable},
		{"a rule of the server", pkt("unpack ok\n") + pkt("ng refs/heads/main protected\n") + "0000", false, errs.Forbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeServer{caps: "report-status", replies: []string{c.reply}}
			_, err := newHost(t).Commit(t.Context(), f.start(t), "main", "", edit, git.Message{})
			if c.good && err != nil {
				t.Errorf("Commit: %v", err)
			}
			if !c.good {
				wantErr(t, "Commit", err, c.kind)
			}
		})
	}
}

// A hook's refusal is final, also if the branch has moved meanwhile: a conflict would be tried again.
func TestAHooksRefusalIsNoLostRace(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "a"}})
	if err := bare.Hook("update", "git update-ref -d refs/heads/main; exit 1"); err != nil { // the branch moves, and the push is refused
		t.Fatal(err)
	}
	_, err := newHost(t).Commit(t.Context(), repo, "main", at, edit, git.Message{})
	wantErr(t, "Commit", err, errs.Forbidden)
}

// A push that must lose is not sent, even to a server that would take it.
func TestNothingIsSentForABranchThatMoved(t *testing.T) {
	t.Parallel()
	f := &fakeServer{advert: someCommit + " refs/heads/main", caps: "report-status", replies: []string{pkt("unpack ok\n") + pkt("ok refs/heads/main\n") + "0000"}}
	_, err := newHost(t).Commit(t.Context(), f.start(t), "main", "", edit, git.Message{})
	wantErr(t, "Commit", err, errs.Conflict)
	if n := f.posts.Load(); n != 0 {
		t.Errorf("%d requests after the advertisement, want none", n)
	}
}

func TestADryRunSendsNothing(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	h := newHost(t)
	at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"clusters/c/f": {Content: "a"}})
	dry := git.Message{DryRun: true}
	derived := []git.DerivedBranch{{Branch: "clusters/c", Dir: "clusters/c"}}
	for name, commit := range map[string]func() (git.Hash, error){
		"Commit": func() (git.Hash, error) { return h.Commit(t.Context(), repo, "main", at, edit, dry) },
		"CommitDerived": func() (git.Hash, error) {
			r, err := h.CommitDerived(t.Context(), repo, git.DerivedUpdate{Branch: "main", Parent: at, Edits: edit, Derived: derived, Message: dry})
			return r.Commit, err
		},
		"ResetBranch": func() (git.Hash, error) {
			return h.ResetBranch(t.Context(), repo, git.BranchReset{Branch: "main", From: at, Onto: at, Edits: edit, Message: dry})
		},
	} {
		if _, err := commit(); !errors.Is(err, git.ErrDryRun) {
			t.Errorf("%s: %v, want ErrDryRun", name, err)
		}
	}
	if id, err := h.Commit(t.Context(), repo, "main", at, []git.Edit{{Path: "clusters/c/f", File: []byte("a")}}, dry); err != nil || id != at {
		t.Errorf("a dry run that changes nothing: %s, %v, want %s", id, err, at)
	}
	if _, pushes := srv.Requests(); pushes != 0 {
		t.Errorf("%d pushes, want none", pushes)
	}
}

// An empty file is a file.
func TestEmptyFilesAreKept(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "file")
	if _, err := newHost(t).Replace(t.Context(), repo, "status/c", "", map[string][]byte{"full": []byte("x"), "empty": {}, "none": nil}, git.Message{}); err != nil {
		t.Fatal(err)
	}
	if got, err := bare.Git(t.Context(), "", "ls-tree", "--name-only", "status/c"); err != nil || got != "empty\nfull\nnone" {
		t.Errorf("the branch holds %q, %v", got, err)
	}
}

// A page for people in the place of an answer is named, so that someone looks for a proxy.
func TestALoginPageIsNamed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, pkt("# service=git-upload-pack\n"), "0000", pkt(someCommit+" refs/heads/main\x00shallow\n"), "0000")
	}))
	t.Cleanup(srv.Close)
	_, err := newHost(t).Head(t.Context(), git.Repo{URL: srv.URL + "/r.git"}, "main")
	wantErr(t, "Head", err, errs.Unavailable)
	if err != nil && !strings.Contains(err.Error(), "login page") {
		t.Errorf("the error is %v, want one that names a login page", err)
	}
}

// pack returns a pack of objects, each a type and its content.
func pack(objects ...[]byte) string {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	for _, o := range objects {
		kind, content := o[0], o[1:]
		head := kind<<4 | byte(len(content)&15)
		if size := len(content) >> 4; size > 0 {
			out = append(out, head|0x80, byte(size))
		} else {
			out = append(out, head)
		}
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, _ = w.Write(content)
		_ = w.Close()
		out = append(out, z.Bytes()...)
	}
	sum := sha1.Sum(out)
	return string(append(out, sum[:]...))
}

// An incomplete tree is refused and not cached: the next read fetches it again.
func TestAnIncompleteTreeIsFetchedAgain(t *testing.T) {
	t.Parallel()
	const commitType, treeType = 1, 2
	below := tree.Tree{{Name: "f", Mode: tree.ModeFile, ID: tree.ObjectID(tree.Blobs, []byte("x"))}}
	root := tree.Tree{{Name: "d", Mode: tree.ModeTree, ID: below.ID()}}
	commit := []byte("tree " + root.ID().String() + "\n\nc\n")
	object := func(kind byte, content []byte) []byte { return append([]byte{kind}, content...) }
	id := git.Hash(fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "commit %d\x00%s", len(commit), commit))))
	whole := []([]byte){object(commitType, commit), object(treeType, root.Encode()), object(treeType, below.Encode())}
	const head = "0000" + "0008NAK\n" // nothing is shallow; nothing in common
	f := &fakeServer{
		advert: string(id) + " refs/heads/main", caps: "shallow filter allow-reachable-sha1-in-want",
		replies: []string{head + pack(whole[:2]...), head + pack(whole...)},
	}
	h, repo := newHost(t), f.start(t)
	_, err := paths(t, h, repo, id)
	wantErr(t, "Tree without a subtree", err, errs.Unavailable)
	if got, err := paths(t, h, repo, id); err != nil || got != "d/f" {
		t.Errorf("Tree when the server sends all: %q, %v", got, err)
	}
}

func paths(t *testing.T, h *plain.Host, repo git.Repo, at git.Hash) (out string, err error) {
	t.Helper()
	for e, err := range h.Tree(t.Context(), repo, at, "") {
		if err != nil {
			return out, err
		}
		out += e.Path
	}
	return out, nil
}

// A commit of ours is remembered with all of its trees, and not at all where some of them were
// dropped while it was pushed.
func TestCommitsAreRememberedWithTheirTrees(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "file")
	base := foreign(t, t.Context(), bare, "main", fleet(60))
	others := map[string]gittest.File{}
	for path, f := range fleet(60) {
		others[path] = gittest.File{Content: "other " + f.Content}
	}
	other := foreign(t, t.Context(), bare, "other", others)
	for name, dropped := range map[string]bool{"nothing is dropped": false, "its base is dropped": true} {
		h := newHost(t, plain.Options{MaxTrees: 50 << 10}) // room for the trees of one of the branches
		list(t, h, repo, base, "")
		m := git.Message{Guard: func(ctx context.Context) error {
			if dropped {
				list(t, h, repo, other, "")
			}
			return nil
		}}
		at, err := h.Commit(t.Context(), repo, "main", base, []git.Edit{{Path: "clusters/c0007/app/f1.yaml", File: []byte(name)}}, m)
		if err != nil {
			t.Fatal(err)
		}
		before := h.Stats().Fetches
		if got, want := list(t, h, repo, at, ""), gitList(t, bare, at); !maps.Equal(got, want) {
			t.Errorf("%s: Tree lists %d files, want %d", name, len(got), len(want))
		}
		if fetched := h.Stats().Fetches > before; fetched != dropped {
			t.Errorf("%s: fetched %v, want %v", name, fetched, dropped)
		}
		base = at
	}
}
