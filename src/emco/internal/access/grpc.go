package access

import (
	"context"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// EnterCall counts a call by gRPC; Throttled if its caller makes too many, or if too many without a good
// credential come from its address.
func (g *Guard) EnterCall(ctx context.Context) error {
	r := request(ctx)
	caller, err := g.Authenticator.Authenticate(r)
	if err == nil && caller.Subject == "" {
		err = errSignIn()
	}
	if err == nil {
		err = g.count(caller)
	}
	return g.refuse(r.RemoteAddr, err)
}

// AdmitCall is Admit for a call by gRPC, whose metadata and certificate are those of a request. It returns the
// caller's subject.
func (g *Guard) AdmitCall(ctx context.Context, need authz.Permission, place string) (subject string, err error) {
	caller, err := g.Authenticator.Authenticate(request(ctx))
	if err != nil {
		return "", err
	}
	_, err = g.Admit(caller, need, place)
	return caller.Subject, err
}

// request returns a call as the request that its metadata, its certificate and its address make.
func request(ctx context.Context) *http.Request {
	r := (&http.Request{Header: http.Header{}}).WithContext(ctx)
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		r.Header.Add("Authorization", value)
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	return r
}
