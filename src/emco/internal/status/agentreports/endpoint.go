package agentreports

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Endpoint serves the reports and tokens of agents.
type Endpoint struct {
	writer  *ReportWriter
	options Options
	bodies  atomic.Int64 // bytes reserved for bodies in memory
}

// NewEndpoint returns an endpoint that stores reports through w.
func NewEndpoint(w *ReportWriter) *Endpoint { return &Endpoint{writer: w, options: w.options} }

// Limits of bodies: a body that unpacks to more than maxRatio times its size is refused.
const (
	maxRatio  = 32
	packAbove = 4 << 10 // larger documents are stored compressed
)

// Report accepts a report of the cluster in the path: a document of package api/status, plain
// or with Content-Encoding gzip, with the cluster's token as Authorization: Bearer. It answers
// 204 after the report is stored, with the digest of its content as ETag. A later document may
// name that digest in "same" instead of repeating the content.
//
// It answers 401 without a token of this cluster; 403 for a document of another cluster; 409 for a
// sequence that is not above the last one, which SequenceHeader gives; 412 for an unknown "same";
// 400, 413, 415 and 422 for a document that it cannot read; 429 and 503, with Retry-After, when the
// agent must send it again.
func (e *Endpoint) Report(w http.ResponseWriter, r *http.Request) error {
	web.Quiet(r) // one log line per report would be too many
	if r.URL.RawQuery != "" {
		if err := web.CheckQuery(r.URL.Query()); err != nil {
			return err
		}
	}
	cluster, err := web.Cluster(r)
	if err != nil {
		return err
	}
	k, err := bearer(r)
	if err == nil {
		err = e.writer.admit(r.Context(), cluster, k)
	}
	if err != nil {
		return e.deny(w, cluster, err)
	}
	body, err := e.body(w, r)
	defer e.bodies.Add(-body.reserved)
	if err != nil {
		return e.recordRefused(w, cluster, err)
	}
	c, err := body.claim(cluster, k, e.options.Now().UTC())
	if err != nil {
		return e.recordRefused(w, cluster, err)
	}
	if err := e.writer.Write(r.Context(), c); err != nil {
		return e.recordRefused(w, cluster, err)
	}
	e.options.Count(intake.Accepted)
	w.Header().Set("ETag", `"`+c.etag()+`"`)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// bearer returns the sum of the token in a request.
func bearer(r *http.Request) (tokenSum, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > 1024 {
		return tokenSum{}, errDenied
	}
	return sha256.Sum256([]byte(token)), nil
}

// deny answers a caller that may not report, or not now.
func (e *Endpoint) deny(w http.ResponseWriter, cluster v2.ClusterKey, err error) error {
	if errs.Is(err, errs.Unauthorized) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="reports"`)
		e.options.Count(intake.Unauthorized)
		e.options.Log.Warn("report refused", "cluster", cluster, "result", intake.Unauthorized)
	}
	return err
}

// requestBody is a report as it arrived.
type requestBody struct {
	plain, packed []byte // packed is nil if it arrived plain
	reserved      int64  // bytes counted in Endpoint.bodies
}

// body reads the body of a request within the limits of size and memory.
func (e *Endpoint) body(w http.ResponseWriter, r *http.Request) (b requestBody, err error) {
	coding := r.Header.Get("Content-Encoding")
	size := r.ContentLength
	if size < 0 {
		size = status.MaxSize
	}
	switch {
	case size > status.MaxSize:
		return b, tooLarge()
	case coding == "gzip":
		size += min(status.MaxSize, max(64<<10, maxRatio*size))
	case coding != "":
		return b, web.WithStatus(http.StatusUnsupportedMediaType, errs.New(errs.Invalid, "Content-Encoding may be gzip, or absent"))
	}
	b.reserved = size
	if e.bodies.Add(size) > e.options.Bodies {
		return b, retryLater("too many reports are being read")
	}
	raw, err := web.Body(w, r, status.MaxSize)
	if err != nil || coding == "" {
		b.plain = raw
		return b, err
	}
	b.packed = raw
	b.plain, err = unpack(raw, size-max(r.ContentLength, 0))
	return b, err
}

func tooLarge() error {
	return errs.E(errs.TooLarge, "take", "report", fmt.Errorf("the limit is %d bytes", status.MaxSize))
}

// unpack decompresses a body of at most limit bytes.
func unpack(packed []byte, limit int64) ([]byte, error) {
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errs.E(errs.Malformed, "unpack", "report", err)
	}
	in.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, errs.E(errs.Malformed, "unpack", "report", err)
	case int64(len(text)) > limit:
		return nil, tooLarge()
	}
	return text, nil
}

// claim decodes a document that was received now.
func (b requestBody) claim(cluster v2.ClusterKey, k tokenSum, now time.Time) (*reportClaim, error) {
	d := intake.Document{Cluster: cluster, Text: b.plain, First: true} // ReportWriter compares the sequence
	r, err := intake.Check(d, 0, now)
	if err != nil {
		return nil, err
	}
	c := &reportClaim{cluster: cluster, report: r, received: now, key: &k}
	if r.Same != "" {
		return c, nil
	}
	return c, c.setDocument(b.plain, b.packed)
}

// setDocument adds the document, which packed holds if it arrived compressed.
func (c *reportClaim) setDocument(plain, packed []byte) error {
	c.digest, c.text, c.gzip = status.Digest(c.report), plain, false
	if packed != nil {
		c.text, c.gzip = packed, true
	} else if len(plain) > packAbove {
		c.text, c.gzip = pack(plain), true
	}
	if len(c.text) > agents.MaxDocument {
		return tooLarge()
	}
	return nil
}

func pack(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // writing to memory does not fail
	_ = w.Close()
	return out.Bytes()
}

// etag is the digest of this content; a later report may refer to it.
func (c *reportClaim) etag() string {
	if c.report.Same != "" {
		return c.report.Same
	}
	return c.digest
}

// recordRefused counts a refused report and maps its error to a status. A report that the agent must
// send again, or in full, is not counted.
func (e *Endpoint) recordRefused(w http.ResponseWriter, cluster v2.ClusterKey, err error) error {
	if errs.Is(err, errs.Unauthorized) {
		return e.deny(w, cluster, err)
	}
	if errors.Is(err, errUnknownDigest) || errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled) {
		return err
	}
	result := intake.ResultOf(err)
	e.options.Count(result)
	e.options.Refused(intake.Document{Cluster: cluster}, err)
	e.options.Log.Warn("report refused", "cluster", cluster, "result", result, "err", err)
	last, late := lastSequence(err)
	switch {
	case late:
		w.Header().Set(status.SequenceHeader, strconv.FormatUint(last, 10))
		return errs.E(errs.Conflict, "take", "report of "+string(cluster), err)
	case result == intake.Ahead:
		return errs.E(errs.Invalid, "take", "report of "+string(cluster), err)
	case result == intake.Forged:
		return errs.E(errs.Forbidden, "take", "report of "+string(cluster), err)
	}
	return err
}
