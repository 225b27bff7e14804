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

// ErrFenced is the error of a writer whose work another process owns now; nothing was written. It
// comes wrapped in a Conflict.
var ErrFenced = errors.New("another process has taken over this work")

// Fence separates a writer that owns a part of the work from its successor. A Fence is valid until its writer loses its
// ownership, which the writer may not notice. The zero Fence is always valid.
type Fence struct {
	Shard string // the part of the work
	Token int64  // higher for each later owner of the shard

	// Check returns Conflict once the ownership is lost, and Unavailable if that cannot be checked
	// now. It is called right before each push. It may be nil.
	Check func(context.Context) error
}

// String returns the fence as a commit's trailer has it, "" for the zero Fence.
func (f Fence) String() string {
	if f.Shard == "" {
		return ""
	}
	return f.Shard + ":" + strconv.FormatInt(f.Token, 10)
}

// fenceOf returns the fence in a commit's trailer; the zero Fence without one.
func fenceOf(c git.Commit) Fence {
	shard, number, ok := strings.Cut(c.Trailer(FenceTrailer), ":")
	token, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return Fence{}
	}
	return Fence{Shard: shard, Token: token}
}

// check returns an error unless the fence is valid.
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

// fencedError is the error of a writer that lost its ownership.
func (f Fence) fencedError(why error) error {
	return errs.E(errs.Conflict, "write", "as "+f.String(), fmt.Errorf("%w: %w", ErrFenced, why))
}

// checkOverrun fails if a later owner of the same shard made one of the commits.
func (f Fence) checkOverrun(commits []git.Commit) error {
	for _, c := range commits {
		if other := fenceOf(c); f.Shard != "" && other.Shard == f.Shard && other.Token > f.Token {
			return f.fencedError(fmt.Errorf("commit %s was made as %s", c.ID, other))
		}
	}
	return nil
}
