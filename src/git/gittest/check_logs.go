package gittest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// logged holds for hosts that have logs.
func logged(ctx context.Context, p contractProbe, branch string) error {
	host, ok := p.host.(git.LogReader)
	if !ok {
		return nil
	}
	at, err := p.start(ctx, branch)
	line := []git.Hash{at}
	for i := 0; err == nil && i < 3; i++ {
		m := git.Message{Title: fmt.Sprint("number ", i), When: stamp.Add(time.Duration(i) * time.Minute), Trailers: []git.Trailer{{Key: "Emco-Number", Value: fmt.Sprint(i)}}}
		at, err = p.host.Commit(ctx, p.repo, branch, at, []git.Edit{{Path: "f", File: []byte(fmt.Sprint(i))}}, m)
		line = append(line, at)
	}
	if err != nil {
		return err
	}
	for base := range line {
		log, err := host.Since(ctx, p.repo, at, line[base])
		if err != nil {
			return err
		}
		if !log.Grown || len(log.Commits) != len(line)-1-base {
			return fmt.Errorf("since commit %d there is %+v", base, log)
		}
		for i, c := range log.Commits {
			if c.ID != line[len(line)-1-i] || c.Trailer("emco-number") != fmt.Sprint(len(line)-2-i) {
				return fmt.Errorf("commit %d since %d is %+v", i, base, c)
			}
		}
	}
	if err := latest(ctx, p, line); err != nil {
		return err
	}
	return unrelated(ctx, p, host, branch, at)
}

// latest reads the newest commits of a line, whose times the rule for logs has set.
func latest(ctx context.Context, p contractProbe, line []git.Hash) error {
	host, ok := p.host.(git.LatestReader)
	if !ok {
		return nil
	}
	at := line[len(line)-1]
	for n, want := range map[int]int{1: 1, 2: 2, len(line): len(line), 150: len(line)} {
		got, err := host.Latest(ctx, p.repo, at, n)
		if err != nil || len(got) != want {
			return fmt.Errorf("the newest %d are %+v, %w; want %d", n, got, err, want)
		}
		for i, c := range got {
			made := stamp.Add(time.Duration(len(line)-2-i) * time.Minute)
			if i == len(line)-1 {
				made = stamp // the first commit
			}
			if c.ID != line[len(line)-1-i] || !c.When.Equal(made) || c.Signed {
				return fmt.Errorf("commit %d of the newest %d is %+v, want %s of %s", i, n, c, line[len(line)-1-i], made)
			}
		}
	}
	if _, err := host.Latest(ctx, p.repo, git.Hash(strings.Repeat("1", 40)), 2); !errs.Is(err, errs.NotFound) {
		return fmt.Errorf("the newest of no commit: %w, want NotFound", err)
	}
	if _, err := host.Latest(ctx, p.repo, "main", 2); !errs.Is(err, errs.Invalid) {
		return fmt.Errorf("the newest of no hash: %w, want Invalid", err)
	}
	return nil
}

// unrelated compares a branch with another one that has nothing in common with it.
func unrelated(ctx context.Context, p contractProbe, host git.LogReader, branch string, at git.Hash) error {
	other, err := p.commit(ctx, branch+"-other", "", git.Edit{Path: "else", File: []byte("x")})
	if err != nil {
		return err
	}
	for _, base := range []git.Hash{other, git.Hash(strings.Repeat("1", 40))} {
		log, err := host.Since(ctx, p.repo, at, base)
		if err != nil || log.Grown {
			return fmt.Errorf("since %s, which is no part of it: %+v, %w", base, log, err)
		}
	}
	if log, err := host.Since(ctx, p.repo, at, ""); err != nil || !log.Grown || len(log.Commits) != 4 {
		return fmt.Errorf("since nothing: %+v, %w", log, err)
	}
	return nil
}
