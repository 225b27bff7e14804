package kube

import (
	"errors"
	"io"
	"net/http"
)

// maxAnswer bounds one answer of an API server, in bytes. A watch is endless by nature
// and is not bounded; it is read object by object.
const maxAnswer = 64 << 20

var errTooLong = errors.New("the cluster's answer is longer than 64 MiB")

// bounded limits answers, so that a cluster that lost its mind cannot take our memory.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport below, to close its connections.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
