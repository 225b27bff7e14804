package access

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// EnterCall counts a call by gRPC; Throttled if its caller makes too many, or if too many without a good
// credential come from its address.
func (g *Guard) EnterCall(ctx context.Context) error {
	r := g.request(ctx)
	caller, err := g.Authenticator.Authenticate(r)
	if err == nil && caller.Subject == "" {
		err = errSignIn()
	}
	if err == nil {
		err = g.count(caller)
	}
	if err != nil {
		g.refused(r, caller, authz.Permission{}, err)
	}
	return g.refuse(r.RemoteAddr, err)
}

// AdmitCall is Admit for a call by gRPC, whose metadata and certificate are those of a request. It returns the
// caller's subject.
func (g *Guard) AdmitCall(ctx context.Context, need authz.Permission, place string) (subject string, err error) {
	r := g.request(ctx)
	caller, err := g.Authenticator.Authenticate(r)
	if err != nil {
		g.refused(r, caller, need, err)
		return "", err
	}
	if g.Witness != nil && caller.Subject != "" {
		g.Witness.Known(r, caller)
	}
	if _, err = g.Admit(caller, need, place); err != nil {
		g.refused(r, caller, need, err)
	}
	return caller.Subject, err
}

// request returns a call as the request that its metadata, its certificate and the address of its client make.
func (g *Guard) request(ctx context.Context) *http.Request {
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{}, Header: http.Header{}}).WithContext(ctx)
	if method, ok := grpc.Method(ctx); ok {
		r.URL.Path = method
	}
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		r.Header.Add("Authorization", value)
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = web.ClientAddress(g.Proxies, p.Addr.String(), metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"))
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	return r
}
