package websession

import "net/http"

// renewal is an answer that writes a cookie when its header goes out.
type renewal struct {
	http.ResponseWriter
	write func() // nil: it was called
}

// begin writes the cookie, once.
func (a *renewal) begin() {
	if a.write != nil {
		a.write()
		a.write = nil
	}
}

// WriteHeader writes the cookie before a final header.
func (a *renewal) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes the cookie first.
func (a *renewal) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// FlushError writes the cookie first: a flush sends the header.
func (a *renewal) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (a *renewal) Unwrap() http.ResponseWriter { return a.ResponseWriter }
