// Package grpccall calls controllers that are other processes, by gRPC: within a deadline, within limits, and again
// while they are unavailable.
package grpccall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
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
	// TLS secures all calls; nil: they are plain text.
	TLS *tls.Config
	// PlainText allows calls in plain text to other machines.
	PlainText bool
}

// credentials returns how a controller's connection is secured. The error is Forbidden.
func (d Dialer) credentials(address string) (credentials.TransportCredentials, error) {
	if d.TLS != nil {
		return credentials.NewTLS(d.TLS), nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || !d.PlainText && !outbound.Loopback(host) {
		return nil, errs.E(errs.Forbidden, "call", address, errors.New("a controller on another machine needs TLS; the operator sets controllers.ca and controllers.cert, or allows plain text with controllers.plainText"))
	}
	return insecure.NewCredentials(), nil
}

// Call makes a call to the controller at an address, and makes it again while the controller is unavailable. An
// error is Unavailable if the controller does not answer or ctx ends, Forbidden if the address must not be dialled, or not
// in plain text, and Invalid if the controller answers an error.
func Call[A any](ctx context.Context, d Dialer, address string, call func(context.Context, grpc.ClientConnInterface) (A, error)) (answer A, err error) {
	secure, err := d.credentials(address)
	if err != nil {
		return answer, err
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wait := pause
	for attempt := 1; ; attempt++ {
		answer, err = try(within, d, address, secure, call)
		code := status.Code(err)
		switch {
		case err == nil:
			return answer, nil
		case errs.Is(err, errs.Forbidden), errs.Is(err, errs.Invalid): // no call was made
			return answer, err
		case ctx.Err() != nil:
			return answer, errs.E(errs.Unavailable, "call", address, ctx.Err())
		case code == codes.ResourceExhausted: // the controller answers it, or gRPC refuses a large message on this side
			return answer, errs.New(errs.Invalid, fmt.Sprintf("the call ends with %s; requests and answers have at most %d MiB: %s", code, maxMessage>>20, textOf(err)))
		case code != codes.Unavailable && code != codes.DeadlineExceeded:
			return answer, errs.New(errs.Invalid, fmt.Sprintf("it answers %s: %s", code, textOf(err)))
		}
		failed := errs.E(errs.Unavailable, "call", address, fmt.Errorf("%d attempts: %s", attempt, textOf(err)))
		if attempt == attempts {
			return answer, failed
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-within.Done():
			timer.Stop()
			return answer, failed
		}
		wait *= 2
	}
}

// try makes one attempt over a connection of its own: a connection that could not be made fails further calls for a
// second without dialling again. Forbidden and Invalid concern the address; other errors are those of call.
func try[A any](ctx context.Context, d Dialer, address string, secure credentials.TransportCredentials, call func(context.Context, grpc.ClientConnInterface) (A, error)) (answer A, err error) {
	forbidden := make(chan error, 1)
	conn, err := d.connect(address, secure, forbidden)
	if err != nil {
		return answer, errs.E(errs.Invalid, "call", address, err)
	}
	defer conn.Close()
	answer, err = call(ctx, conn)
	if err == nil {
		return answer, nil
	}
	select {
	case refusal := <-forbidden:
		return answer, errs.E(errs.Forbidden, "call", address, refusal)
	default:
		return answer, err
	}
}

// connect returns a connection that is made when it is used. gRPC keeps only the text of an error of the dialer, so
// connect sends to forbidden why the address must not be dialled.
func (d Dialer) connect(address string, secure credentials.TransportCredentials, forbidden chan<- error) (*grpc.ClientConn, error) {
	dialer := outbound.Dialer(d.Admit)
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if errs.Is(err, errs.Forbidden) {
				select {
				case forbidden <- err:
				default: // the first one suffices
				}
			}
			return conn, err
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
