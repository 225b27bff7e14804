package kube

import (
	"errors"
	"io"
	"net/http"
)

// maxAnswer bounds one answer of an API server, in bytes. It does not apply to a watch, which
// is endless and is read object by object.
const maxAnswer = 64 << 20

var errTooLong = errors.New("the cluster's answer is longer than 64 MiB")

// limitedTransport limits the size of answers, so that a faulty cluster cannot exhaust the memory.
type limitedTransport struct{ http.RoundTripper }

func (b limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		answer.Body = &limitedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport; client-go closes its connections.
func (b limitedTransport) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
