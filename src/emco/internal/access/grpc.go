package access

import (
	"context"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// AdmitCall is Admit for a call by gRPC, whose metadata and certificate are those of a request. It returns the
// caller's subject.
func (g *Guard) AdmitCall(ctx context.Context, need authz.Permission, place string) (subject string, err error) {
	r := (&http.Request{Header: http.Header{}}).WithContext(ctx)
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		r.Header.Add("Authorization", value)
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	caller, err := g.Authenticator.Authenticate(r)
	if err != nil {
		return "", err
	}
	_, err = g.Admit(caller, need, place)
	return caller.Subject, err
}
