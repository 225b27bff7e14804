package fetch

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Bounds of one exchange: branches or files, and bytes.
const (
	perExchange   = 32
	exchangeBytes = 64 << 20
)

// inExchanges fetches items, several in one exchange. If the server or a limit refuses some together, it fetches
// each alone, so that failed is called only for the one that is refused. Any other error ends it.
func inExchanges[T any](ctx context.Context, items []T, exchange func(context.Context, []T) error, failed func(T, error)) error {
	for some := range slices.Chunk(items, perExchange) {
		err := exchange(ctx, some)
		if !isRefusal(err) {
			if err != nil {
				return err
			}
			continue
		}
		for i, item := range some {
			if len(some) > 1 {
				err = exchange(ctx, some[i:i+1])
			}
			switch {
			case isRefusal(err):
				failed(item, err)
			case err != nil:
				return err
			}
		}
	}
	return nil
}

func isRefusal(err error) bool { return errs.Is(err, errs.TooLarge) || errs.Is(err, errs.NotFound) }
