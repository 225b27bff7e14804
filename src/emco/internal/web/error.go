package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// HandlerFunc is a handler that returns what went wrong; it must not have written
// anything then. ServeHTTP answers the error and leaves it for the log of Wrap.
type HandlerFunc func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP calls h and answers its error, if any.
func (h HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		fail(w, r, err)
	}
}

// statusError is an error whose status is not that of its kind.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// WithStatus makes err be answered with status, where no kind has it: 412 for a
// failed precondition, 408 for a body that did not come in time.
func WithStatus(status int, err error) error { return &statusError{status, err} }

// Problem is an error that is always answered as a problem document (RFC 9457), for answers
// that upstream EMCO does not have: its clients cannot expect plain text there.
type Problem struct {
	Status  int
	Type    string                     // what clients branch on, such as "plan-changed"
	Members map[string]json.RawMessage // added to the document's own
	Err     error                      // its text is the detail
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// OAuth is an error that is answered with 400 as OAuth 2.0 has it (RFC 6749, section 5.2): where a specification of that family says so.
type OAuth struct {
	Code string // such as invalid_request
	Err  error  // its text is the description
}

func (e *OAuth) Error() string { return e.Err.Error() }
func (e *OAuth) Unwrap() error { return e.Err }

// statusOf returns the status to answer err with. Kinds have theirs in package
// errs.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status
	}
	if _, ok := errors.AsType[*OAuth](err); ok {
		return http.StatusBadRequest
	}
	return errs.Status(errs.KindOf(err))
}

// fail answers err as plain text, or as a problem document (RFC 9457) if the client
// accepts one. Errors of kind Internal are answered "internal error"; their text is
// for the log only.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	record(r, err)
	status := statusOf(err)
	text := err.Error()
	if status == http.StatusInternalServerError {
		text = "internal error"
	}
	header := w.Header()
	header.Del("ETag")
	header.Del("Content-Disposition")
	if after := errs.RetryAfter(err); after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	} else if (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && header.Get("Retry-After") == "" {
		header.Set("Retry-After", "1") // soon: most outages end within seconds
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		writeProblem(w, r, status, p.Type, text, p.Members)
		return
	}
	if o, ok := errors.AsType[*OAuth](err); ok {
		writeOAuth(w, r, o)
		return
	}
	if wantsProblem(r) {
		writeProblem(w, r, status, errs.KindOf(err).String(), text, nil)
		return
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

// problemDetails is the body of application/problem+json.
type problemDetails struct {
	Type      string `json:"type"` // stable: clients may branch on it
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
	RequestID string `json:"requestId,omitempty"`
}

const problemType = "application/problem+json"

func wantsProblem(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		if strings.Contains(strings.ToLower(accept), problemType) {
			return true
		}
	}
	return false
}

// writeProblem answers with a problem document. Members follow its own, in order of name.
func writeProblem(w http.ResponseWriter, r *http.Request, status int, name, text string, members map[string]json.RawMessage) {
	p := problemDetails{
		Type:      "urn:emco:error:" + strings.ReplaceAll(name, " ", "-"),
		Title:     http.StatusText(status),
		Status:    status,
		Detail:    text,
		Instance:  r.URL.EscapedPath(),
		RequestID: RequestID(r.Context()),
	}
	document, err := json.Marshal(p)
	if err == nil && len(members) > 0 {
		var more []byte
		if more, err = json.Marshal(members); err == nil {
			document = append(append(document[:len(document)-1], ','), more[1:]...)
		}
	}
	if err != nil {
		record(r, err)
		document = []byte("{}")
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(status)
	_, _ = w.Write(append(document, '\n'))
}

// writeOAuth answers with an error of OAuth 2.0.
func writeOAuth(w http.ResponseWriter, r *http.Request, e *OAuth) {
	err := JSON(w, http.StatusBadRequest, struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{e.Code, e.Error()})
	if err != nil {
		record(r, err)
	}
}

// Status returns the status that err is answered with.
func Status(err error) int { return statusOf(err) }

// Body reads a request's body. Errors are TooLarge beyond limit bytes, and answered
// with 408 if the client is too slow for the server's deadline.
func Body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	var data bytes.Buffer
	data.Grow(int(min(max(r.ContentLength, 0), limit, grown)) + bytes.MinRead) // one more read finds the end
	if _, err := data.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, ReadError(err)
	}
	return data.Bytes(), nil
}

// grown is the memory reserved for a body before it arrives.
const grown = 64 << 10

// ReadError classifies an error of reading a request's body.
func ReadError(err error) error {
	if _, ok := errors.AsType[*errs.Error](err); ok {
		return err
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errs.New(errs.TooLarge, "body is larger than "+strconv.FormatInt(large.Limit, 10)+" bytes")
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return WithStatus(http.StatusRequestTimeout, errs.New(errs.Unavailable, "the body did not arrive in time"))
	}
	return errs.New(errs.Malformed, err.Error())
}

// Extend gives a request that moves a large body the time d, counted from now, for
// reading it and for answering; the server's own deadlines are for small ones. It
// does nothing where there is no connection, as in tests.
func Extend(w http.ResponseWriter, d time.Duration) {
	control := http.NewResponseController(w)
	at := time.Now().Add(d)
	_ = control.SetReadDeadline(at)
	_ = control.SetWriteDeadline(at)
}
