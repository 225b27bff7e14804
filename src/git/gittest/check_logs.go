package gittest

import (
	"context"
	"fmt"
	"strings"

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
		m := git.Message{Title: fmt.Sprint("number ", i), Trailers: []git.Trailer{{Key: "Emco-Number", Value: fmt.Sprint(i)}}}
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
	return unrelated(ctx, p, host, branch, at)
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
