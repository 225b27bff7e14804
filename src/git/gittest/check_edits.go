package gittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

func exactDir(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", Dir: map[string][]byte{
		"a.yaml": []byte("a: 2\n"), "sub/c/d.yaml": []byte("d\n"), "new.yaml": []byte("n\n"),
	}})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 2\n", "apps/one/new.yaml=n\n", "apps/one/sub/c/d.yaml=d\n")
}

func foreignFiles(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/two", Dir: map[string][]byte{"z": []byte("z")}},
		git.Edit{Path: "apps/one/sub/e", File: []byte("e")})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n",
		"apps/one/sub/e=e", "apps/two/z=z")
}

func turning(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", File: []byte("file now")},
		git.Edit{Path: "README.md", Dir: map[string][]byte{"de": []byte("liesmich")}})
	if err != nil {
		return err
	}
	if err := p.holds(ctx, branch, at, "README.md/de=liesmich", "apps/one=file now"); err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", Dir: map[string][]byte{"x/y": []byte("1")}},
		git.Edit{Path: "README.md", File: []byte("back")})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=back", "apps/one/x/y=1")
}

func removal(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one/sub/b.yaml"}, git.Edit{Path: "apps/one/a.yaml"})
	if err != nil {
		return err
	}
	if err := p.holds(ctx, branch, at, "README.md=read me\n"); err != nil {
		return err
	}
	if at, err = p.commit(ctx, branch, at, git.Edit{Path: "README.md"}); err != nil {
		return err
	}
	return p.holds(ctx, branch, at)
}

func badPaths(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	f := []byte("x")
	for _, edits := range [][]git.Edit{
		{{Path: "", File: f}},
		{{Path: "/etc/passwd", File: f}},
		{{Path: "../up", File: f}},
		{{Path: "a//b", File: f}},
		{{Path: "a/./b", File: f}},
		{{Path: ".GiT/config", File: f}},
		{{Path: "a/.git", File: f}},
		{{Path: "a\x00b", File: f}},
		{{Path: "d", Dir: map[string][]byte{"../../x": f}}},
		{{Path: "d", Dir: map[string][]byte{".git/hooks/x": f}}},
		{{Path: "a", File: f}, {Path: "a", File: f}},
		{{Path: "a/b", File: f}, {Path: "a", Dir: map[string][]byte{"b": f}}},
		{{Path: "d", Dir: map[string][]byte{"a": f, "a/b": f}}},
		{{Path: "d", File: f, Dir: map[string][]byte{"a": f}}},
	} {
		if _, err := p.commit(ctx, branch, at, edits...); !errs.Is(err, errs.Invalid) {
			return fmt.Errorf("%q: %w", edits, wantKind(err, errs.Invalid))
		}
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n")
}

func belowFile(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/two", File: []byte("fine")}, git.Edit{Path: "README.md/x", File: []byte("x")})
	return wantBlame(err, "README.md")
}

func wantBlame(err error, path string) error {
	blamed, ok := errors.AsType[*git.PathError](err)
	if !ok || blamed.Path != path {
		return fmt.Errorf("got error %v, want one that blames %s", err, path)
	}
	return wantKind(err, errs.Invalid)
}

func noChange(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	again, err := p.commit(ctx, branch, at,
		git.Edit{Path: "README.md", File: []byte("read me\n")},
		git.Edit{Path: "apps/one", Dir: map[string][]byte{"a.yaml": []byte("a: 1\n"), "sub/b.yaml": []byte("b: 1\n")}},
		git.Edit{Path: "gone"}, git.Edit{Path: "deep/er/gone"}, git.Edit{Path: "empty", Dir: map[string][]byte{}})
	if err != nil || again != at {
		return fmt.Errorf("got %s, %w, want %s", again, err, at)
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n")
}

func roundTrip(ctx context.Context, p contractProbe, branch string) error {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	at, err := p.commit(ctx, branch, "",
		git.Edit{Path: "empty", File: []byte{}},
		git.Edit{Path: "a", Dir: map[string][]byte{"x": []byte("\x00\xff\r\n")}},
		git.Edit{Path: "a.b", File: []byte("sorts before a/")},
		git.Edit{Path: "a0", File: []byte("sorts behind a/")},
		git.Edit{Path: "big", File: []byte(big)},
		git.Edit{Path: "clusters/p+c/Größe ü:1.yaml", File: []byte("ü")})
	if err != nil {
		return err
	}
	want := []string{
		"a.b=sorts before a/", "a/x=\x00\xff\r\n", "a0=sorts behind a/", "big=" + big, "clusters/p+c/Größe ü:1.yaml=ü", "empty=",
	}
	if err := p.holds(ctx, branch, at, want...); err != nil {
		return err
	}
	if got, err := p.files(ctx, at, ""); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("got %q, %w, want %q", got, err, want)
	}
	for under, want := range map[string][]string{
		"a": {"a/x=\x00\xff\r\n"}, "a/x": {"a/x=\x00\xff\r\n"}, "a/x/y": nil, "none": nil, "empty": {"empty="},
	} {
		if got, err := p.files(ctx, at, under); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("below %q: got %q, %v, want %q", under, got, err, want)
		}
	}
	return nil
}
