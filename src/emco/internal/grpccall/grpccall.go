// Package grpccall calls controllers that are other processes, by gRPC: within a deadline, within limits, and again
// while they are unavailable.
package grpccall

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Limits of one call.
const (
	timeout    = 10 * time.Second // of all attempts together
	attempts   = 3
	pause      = 200 * time.Millisecond // before the second attempt; doubled for each further one
	maxMessage = 16 << 20               // bytes of a request, and of an answer
	maxText    = 500                    // bytes of a text for users
)

// Dialer dials controllers.
type Dialer struct {
	// Admit returns why an address must not be dialled.
	Admit func(netip.Addr) error
}

// Call makes a call to the controller at an address, and makes it again while the controller is unavailable. An
// error is Unavailable if the controller does not answer or ctx ends, and Invalid if the controller answers an error.
func Call[A any](ctx context.Context, d Dialer, address string, call func(context.Context, grpc.ClientConnInterface) (A, error)) (answer A, err error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := d.connect(address)
	if err != nil {
		return answer, errs.E(errs.Invalid, "call", address, err)
	}
	defer conn.Close()
	wait := pause
	for attempt := 1; ; attempt++ {
		answer, err = call(within, conn)
		code := status.Code(err)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return answer, errs.E(errs.Unavailable, "call", address, ctx.Err())
		case code != codes.Unavailable && code != codes.DeadlineExceeded:
			return answer, errs.New(errs.Invalid, fmt.Sprintf("it answers %s: %s", code, textOf(err)))
		case attempt == attempts || within.Err() != nil:
			return answer, errs.E(errs.Unavailable, "call", address, fmt.Errorf("%d attempts: %s", attempt, textOf(err)))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-within.Done():
			timer.Stop()
		}
		wait *= 2
	}
}

// connect returns a connection that is made when it is used.
func (d Dialer) connect(address string) (*grpc.ClientConn, error) {
	dialer := outbound.Dialer(d.Admit)
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)), grpc.WithNoProxy())
}

func textOf(err error) string { return Line(status.Convert(err).Message()) }

// Line returns a text of a controller as users see it: one line of at most 500 bytes.
func Line(text string) string {
	blank := func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}
	line := strings.Join(strings.Fields(strings.Map(blank, text)), " ")
	if len(line) <= maxText {
		return line
	}
	const cut = "…"
	return strings.ToValidUTF8(line[:maxText-len(cut)], "") + cut
}
