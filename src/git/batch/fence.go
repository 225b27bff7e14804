package batch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// FenceTrailer is the key of the trailer that names the fence of a commit.
const FenceTrailer = "Emco-Fence"

// ErrFenced says that another process has taken over the work, and nothing was written.
// It comes wrapped in a Conflict.
var ErrFenced = errors.New("another process has taken over this work")

// Fence stands between a writer that owns a part of the work and its successor. It falls
// when the writer loses its ownership, of which it may not know. The zero Fence never does.
type Fence struct {
	Shard string // what is owned
	Token int64  // higher for each later owner of the shard

	// Check returns Conflict once the ownership is lost, and Unavailable if that cannot
	// be told now. It is asked right before each push. It may be nil.
	Check func(context.Context) error
}

// String is the fence as it stands in a commit's trailer, "" for the zero Fence.
func (f Fence) String() string {
	if f.Shard == "" {
		return ""
	}
	return f.Shard + ":" + strconv.FormatInt(f.Token, 10)
}

// fenceOf reads the fence that a commit was made behind; zero if there was none.
func fenceOf(c git.Commit) Fence {
	shard, number, ok := strings.Cut(c.Trailer(FenceTrailer), ":")
	token, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return Fence{}
	}
	return Fence{Shard: shard, Token: token}
}

// check asks whether the fence stands.
func (f Fence) check(ctx context.Context) error {
	if f.Check == nil {
		return nil
	}
	err := f.Check(ctx)
	if errs.Is(err, errs.Conflict) {
		return f.fencedError(err)
	}
	return err
}

// fencedError is the error of a writer that is not the owner any more.
func (f Fence) fencedError(why error) error {
	return errs.E(errs.Conflict, "write", "as "+f.String(), fmt.Errorf("%w: %w", ErrFenced, why))
}

// checkOverrun says whether a later owner of the same shard made one of the commits.
func (f Fence) checkOverrun(commits []git.Commit) error {
	for _, c := range commits {
		if other := fenceOf(c); f.Shard != "" && other.Shard == f.Shard && other.Token > f.Token {
			return f.fencedError(fmt.Errorf("commit %s was made as %s", c.ID, other))
		}
	}
	return nil
}
