package gittest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

func staleParent(ctx context.Context, p contractProbe, branch string) error {
	first, err := p.commit(ctx, branch, "", git.Edit{Path: "f", File: []byte("1")})
	if err != nil {
		return err
	}
	second, err := p.commit(ctx, branch, first, git.Edit{Path: "f", File: []byte("2")})
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, first, git.Edit{Path: "g", File: []byte("3")})
	return errors.Join(wantKind(err, errs.Conflict), p.holds(ctx, branch, second, "f=2"))
}

func existingBranch(ctx context.Context, p contractProbe, branch string) error {
	first, err := p.commit(ctx, branch, "", git.Edit{Path: "f", File: []byte("1")})
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, "", git.Edit{Path: "g", File: []byte("2")})
	return errors.Join(wantKind(err, errs.Conflict), p.holds(ctx, branch, first, "f=1"))
}

func oneWinner(ctx context.Context, p contractProbe, branch string) error {
	const writers = 6
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	commits, failures := make([]git.Hash, writers), make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			commits[i], failures[i] = p.commit(ctx, branch, at, git.Edit{Path: fmt.Sprintf("w/%d", i), File: []byte("x")})
		})
	}
	wg.Wait()
	won := -1
	for i, err := range failures {
		switch {
		case err == nil && won >= 0:
			return fmt.Errorf("writers %d and %d both won", won, i)
		case err == nil:
			won = i
		case !errs.Is(err, errs.Conflict):
			return wantKind(err, errs.Conflict)
		}
	}
	if won < 0 {
		return fmt.Errorf("no writer won: %w", errors.Join(failures...))
	}
	return p.holds(ctx, branch, commits[won], "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n", fmt.Sprintf("w/%d=x", won))
}

func endedContext(ctx context.Context, p contractProbe, branch string) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.start(ended, branch); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("commit: got error %v, want %v", err, context.Canceled)
	}
	_, err := p.host.Head(ctx, p.repo, branch)
	return wantKind(err, errs.NotFound)
}

func guarded(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	refusal := errors.New("not any more")
	asked := 0
	m := git.Message{Title: "guarded", Guard: func(context.Context) error { asked++; return refusal }}
	edits := []git.Edit{{Path: "guarded", File: []byte("x")}}
	if id, err := p.host.Commit(ctx, p.repo, branch, at, edits, m); !errors.Is(err, refusal) || asked != 1 {
		return fmt.Errorf("commit is %s, %w, asked %d times, want the guard's error", id, err, asked)
	}
	if err := p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n"); err != nil {
		return err
	}
	m.Guard = func(context.Context) error { return nil }
	id, err := p.host.Commit(ctx, p.repo, branch, at, edits, m)
	if err != nil || id == at {
		return fmt.Errorf("commit is %s, %w, want one that the guard allows", id, err)
	}
	return nil
}
