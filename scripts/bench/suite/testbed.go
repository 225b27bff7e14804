package suite

import (
	"context"
	"fmt"
	"io"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
)

// built reports whether parts of the test bed exist. If not, the run names the skipped cases once. It
// builds nothing, because a build would take minutes and the measured cores.
func (s *Suite) built(ctx context.Context, what string, parts ...string) bool {
	if there, known := s.there[what]; known {
		return there
	}
	b, err := build.New(io.Discard)
	for _, part := range parts {
		ok := false
		if err == nil {
			_, ok, err = b.Where(ctx, part)
		}
		if err == nil && !ok {
			err = fmt.Errorf("%s is not built: cd scripts/testbed && GOWORK=off go run . build %s", part, part)
		}
	}
	if err != nil {
		s.time.omit(what + ": " + err.Error())
	}
	s.there[what] = err == nil
	return err == nil
}
