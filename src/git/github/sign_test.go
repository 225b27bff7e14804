package github_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/sshsig"
)

// A signature is of the very commit that the server makes, so its name is known before.
func TestSignedCommits(t *testing.T) {
	t.Parallel()
	_, bare, repo := seeded(t)
	key, err := gittest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := sshsig.New([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	parent := head(t, bare)
	m := git.Message{Title: "signed", Signer: signer}.Dated()
	h := host(t, github.Options{})
	id, err := h.Commit(t.Context(), repo, "main", parent, edit, m)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := h.Latest(t.Context(), repo, id, 2)
	if err != nil || len(newest) != 2 || !newest[0].Signed || newest[1].Signed {
		t.Errorf("the log shows %+v, %v; want the first one signed", newest, err)
	}
	raw := must(bare.Git(t.Context(), "", "cat-file", "commit", string(id)))
	object, _, err := m.Object(git.Hash(must(bare.Git(t.Context(), "", "rev-parse", string(id)+"^{tree}"))), parent)
	if err != nil || strings.TrimSuffix(string(object), "\n") != raw || !strings.Contains(raw, "gpgsig -----BEGIN SSH SIGNATURE-----") {
		t.Errorf("the server made\n%s\nwant\n%s\n%v", raw, object, err)
	}
}
