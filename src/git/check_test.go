package git_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"a", "clusters/p+c/context/123/app/a b/x.yaml", "...", "..a", "a..", ".github/x", ".gitignore", "git", "a/.gitattributes",
		"role-system:node.yaml", "Größe", "-x", strings.Repeat("a/", 2000) + "b",
	} {
		if err := git.CheckPath(good); err != nil {
			t.Errorf("CheckPath(%q) = %v, want nil", good, err)
		}
	}
	for _, bad := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/../b", "../a", ".git", ".GIT", ".Git/x", "a/.gIt/hooks", ".git.", ".git ", ".git . .",
		".git::$INDEX_ALLOCATION", "git~1", "GIT~1/x", ".g\u200cit", "\ufeff.git", ".gitmodules", ".GITMODULES", "a\x00b", "a\nb", "a\x7f", `a\b`, `a\.git`,
		"a\xff", strings.Repeat("a", 256), strings.Repeat("a/", 2048) + "b",
	} {
		if err := git.CheckPath(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("CheckPath(%q) = %v, want Invalid", bad, err)
		}
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", ".git", "a//b", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if git.CheckPath(p) != nil {
			return
		}
		if path.Clean(p) != p || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
			t.Errorf("CheckPath(%q) lets a path through that is not clean", p)
		}
		for e := range strings.SplitSeq(p, "/") {
			if strings.EqualFold(e, ".git") {
				t.Errorf("CheckPath(%q) lets .git through", p)
			}
		}
	})
}

func TestCheckEdits(t *testing.T) {
	t.Parallel()
	f := []byte("x")
	for _, c := range []struct {
		name  string
		edits []git.Edit
		blame string // empty: allowed
	}{
		{"nothing", nil, ""},
		{"neighbours whose names begin alike", []git.Edit{{Path: "a", File: f}, {Path: "a.b", File: f}, {Path: "ab", File: f}, {Path: "a-b/c", File: f}}, ""},
		{"directories side by side", []git.Edit{{Path: "a/b", Dir: map[string][]byte{"x": f, "x.y": f, "z/x": f}}, {Path: "a/c"}}, ""},
		{"the same path twice", []git.Edit{{Path: "a", File: f}, {Path: "b"}, {Path: "a"}}, "a"},
		{"one inside another, with a name between", []git.Edit{{Path: "a/b/c", File: f}, {Path: "a.x", File: f}, {Path: "a", File: f}}, "a/b/c"},
		{"file and directory at once", []git.Edit{{Path: "a", File: f, Dir: map[string][]byte{}}}, "a"},
		{"a bad relative path", []git.Edit{{Path: "a", Dir: map[string][]byte{"b/.git/x": f}}}, "a/b/.git/x"},
		{"a file below a file in one directory", []git.Edit{{Path: "a", Dir: map[string][]byte{"b": f, "b.c": f, "b/c": f}}}, "a/b/c"},
		{
			"too long in all",
			[]git.Edit{{Path: strings.Repeat("d/", 1500) + "d", Dir: map[string][]byte{strings.Repeat("e/", 600) + "e": f}}},
			strings.Repeat("d/", 1500) + "d/" + strings.Repeat("e/", 600) + "e",
		},
	} {
		err := git.CheckEdits(c.edits)
		if (err == nil) != (c.blame == "") || err != nil && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), c.blame)) {
			t.Errorf("%s: CheckEdits = %v, want one that blames %q", c.name, err, c.blame)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]git.Address{
		"https://github.com/o/r.git":      {Scheme: "https", Host: "github.com", Path: "/o/r.git"},
		"HTTP://10.0.0.1:3000/r":          {Scheme: "http", Host: "10.0.0.1", Port: "3000", Path: "/r"},
		"https://[::1]:8443/o/r":          {Scheme: "https", Host: "::1", Port: "8443", Path: "/o/r"},
		"git@github.com:o/r.git":          {Scheme: "ssh", User: "git", Host: "github.com", Path: "o/r.git"},
		"host:o/r":                        {Scheme: "ssh", Host: "host", Path: "o/r"},
		"git@[::1]:r":                     {Scheme: "ssh", User: "git", Host: "::1", Path: "r"},
		"ssh://git@example.org:22/~ann/r": {Scheme: "ssh", User: "git", Host: "example.org", Port: "22", Path: "/~ann/r"},
		"file:///srv/git/r.git":           {Scheme: "file", Path: "/srv/git/r.git"},
	} {
		if got, err := git.ParseURL(raw); err != nil || got != want {
			t.Errorf("ParseURL(%q) = %+v, %v, want %+v", raw, got, err, want)
		}
		if err := git.CheckURL(raw, false); (err != nil) != (want.Scheme == "file") {
			t.Errorf("CheckURL(%q, false) = %v", raw, err)
		}
	}
	for _, bad := range []string{
		"", "r", "/srv/r", "./r", "ext::sh -c x", "ext::sh", "fd::3", "-oProxyCommand=x", "--upload-pack=x", "https://u:s3cr3t@h/r", "https://u@h/r",
		"ssh://u:s3cr3t@h/r", "ssh://-h/r", "ssh://-u@h/r", "git@h:-x", "git@-h:r", "file://host/r", "file://", "javascript://h/r", "https:///r", "https://h:0/r",
		"https://h:99999/r", "https://h/", "https://h/../r", "https://h/r#s3cr3t", "https://h/r?token=s3cr3t", "https://h/\nr", "https://h/%zz",
	} {
		err := git.CheckURL(bad, true)
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("CheckURL(%q) = %v, want Invalid without secrets", bad, err)
		}
	}
}

func TestCheckBranch(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"main", "status/p+c", "shard-01", "a.b", "ü", "a/b/c"} {
		if err := git.CheckBranch(good); err != nil {
			t.Errorf("CheckBranch(%q) = %v, want nil", good, err)
		}
	}
	for _, bad := range []string{"", "-a", "a..b", "../../x", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", `a\b`, "a.lock", "a.lock/b", "a.", ".a", "a/.b", "/a", "a/", "a//b", "@", "a@{1}", "HEAD", "refs/heads/x", "a\x01", "a\xff"} {
		if err := git.CheckBranch(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("CheckBranch(%q) = %v, want Invalid", bad, err)
		}
	}
}

func TestMessageCannotBeForged(t *testing.T) {
	t.Parallel()
	m := git.Message{
		Title: "a\n\nb\x00", Author: "Eve\n> <eve@example.org> 0 +0000\ncommitter x <y>", When: time.Unix(1, 0),
		Trailers: []git.Trailer{{Key: "Emco Op\n", Value: "1\r\nEmco-Op: 2"}, {Key: "", Value: "v"}},
	}
	if got, want := m.Text(), "a  b\n\nEmcoOp: 1  Emco-Op: 2\nEmco-Note: v\n"; got != want {
		t.Errorf("Text() = %q, want %q", got, want)
	}
	if got := m.Signature(); strings.Count(got, "<") != 1 || strings.Count(got, "\n") != 0 || !strings.HasSuffix(got, "> 1 +0000") {
		t.Errorf("Signature() = %q", got)
	}
	if got, want := (git.Message{When: time.Unix(1, 0)}).Signature(), "EMCO <emco@localhost> 1 +0000"; got != want {
		t.Errorf("Signature() = %q, want %q", got, want)
	}
	if got, want := (git.Message{}).Text(), "update\n"; got != want {
		t.Errorf("Text() = %q, want %q", got, want)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	r := git.Repo{URL: "https://h/r", Token: "s3cr3t", SSHKey: "s3cr3t"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, r); strings.Contains(text, "s3cr3t") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}
