// Package audit defines the lines of the audit log and their chain of hashes, and checks that no line is
// missing or changed. The package auditlog of emco writes them.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Version is the version of lines.
const Version = 1

// The phases of lines.
const (
	Intent  = "intent"   // a request is about to be carried out
	Outcome = "outcome"  // a request has been carried out; its intent is Of
	Refused = "refused"  // a request was refused before anything was done
	SignIn  = "sign-in"  // a caller was seen for the first time in a while
	SignOut = "sign-out" // a caller ended its session
	Read    = "read"     // a request that only read
	Start   = "start"    // a process began, and writes this stream; Heads are those of all streams
	Stop    = "stop"     // the process has stopped
	Mark    = "mark"     // Heads are those of all streams; a process that goes on in this stream because it lost its own is the Reason
	Trim    = "trim"     // old lines were removed; Heads are the last removed line of each stream
	Missed  = "missed"   // Count lines were not recorded one by one
	Program = "program"  // the program changed something on behalf of Subject
)

// Phases lists the phases of lines.
func Phases() []string {
	return []string{Intent, Outcome, Refused, Read, SignIn, SignOut, Program, Start, Stop, Mark, Trim, Missed}
}

// Line is a line of the log. Lines hold neither bodies nor credentials.
type Line struct {
	Version int       `json:"v"`
	Stream  string    `json:"stream"`
	Seq     int64     `json:"seq"`            // 1 for the first line of a stream, then one more each
	Prev    string    `json:"prev,omitempty"` // SHA-256 of the line before, in hexadecimal; empty for the first
	Time    time.Time `json:"time"`
	Phase   string    `json:"phase"`
	Of      int64     `json:"of,omitempty"` // of an outcome: the number of its intent in the same stream; 0 if the process changed its stream in between, and Request is common to both

	Request string `json:"request,omitempty"` // id of the request
	Trace   string `json:"trace,omitempty"`   // id of the trace that records the request, or else of the one that the client sent

	Subject    string `json:"subject,omitempty"`    // who; empty: not known
	SubjectUID string `json:"subjectUid,omitempty"` // of an API token: the UID of its document, which later tokens of the same name do not have
	Via        string `json:"via,omitempty"`        // how the caller was known: oidc, session, token, certificate, proxy, bootstrap, header, program, socket
	Address    string `json:"address,omitempty"`    // from where

	Verb  string `json:"verb,omitempty"`
	Type  string `json:"type,omitempty"`
	Path  string `json:"path,omitempty"`
	Place string `json:"place,omitempty"` // projects/NAME or cluster-providers/NAME that the request concerns

	Code      int    `json:"code,omitempty"` // status of the answer
	UID       string `json:"uid,omitempty"`  // of the document
	Rev       int64  `json:"rev,omitempty"`
	Before    string `json:"before,omitempty"`    // SHA-256 of the document before, without what is secret
	After     string `json:"after,omitempty"`     // SHA-256 of the document after, without what is secret
	Body      string `json:"body,omitempty"`      // SHA-256 of the body of an action
	Documents int    `json:"documents,omitempty"` // changed ones, if more than one; UID, Rev, Before and After are of the first
	Reason    string `json:"reason,omitempty"`

	Count int64  `json:"count,omitempty"`
	Heads []Head `json:"heads,omitempty"`
}

// Head names a line of a stream: its last one so far, or the last one that was removed.
type Head struct {
	Stream string `json:"stream"`
	Seq    int64  `json:"seq"`
	Hash   string `json:"hash"` // SHA-256 of the line, in hexadecimal
}

// Encode returns the line as it is stored, without a line end.
func (l Line) Encode() ([]byte, error) { return json.Marshal(l) }

// Hash returns the SHA-256 of a stored line.
func Hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Digest returns the SHA-256 of a document's text; empty for none.
func Digest(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	return Hash(text)
}

// Page is a page of lines, newest first.
type Page struct {
	Items    []json.RawMessage `json:"items"` // lines as they are stored
	Continue string            `json:"continue,omitempty"`
}

// Note is what an export holds besides lines: Begin with the names of all streams as the first line, which distinguishes a part of an export
// from a file of lines; Anchor before the first line of a stream whose older lines were
// removed, Spoilt before the lines of a stream with a record that cannot be read, Head after the last line of each stream, and
// End with the names of all streams as the last line.
type Note struct {
	Begin  []string `json:"begin,omitzero"`
	Anchor *Head    `json:"anchor,omitempty"`
	Spoilt *Spoilt  `json:"spoilt,omitempty"`
	Head   *Head    `json:"head,omitempty"`
	End    []string `json:"end,omitzero"`
}

// Spoilt names a record of a stream that the server cannot read. The lines that it is about may be there.
type Spoilt struct {
	Stream string `json:"stream"`
	Seq    int64  `json:"seq"` // of the first of these lines; 0 if it is not known
	Key    string `json:"key"` // in etcd
}

// endNote begins the last line of an export.
const endNote = `{"end":`

// IsEnd reports whether a line is the last one of an export. An export without it was cut.
func IsEnd(line []byte) bool { return bytes.HasPrefix(line, []byte(endNote)) }

// isNote reports whether a line of an export is a note.
func isNote(line []byte) bool {
	for _, name := range []string{`{"begin":`, `{"anchor":`, `{"spoilt":`, `{"head":`, endNote} {
		if bytes.HasPrefix(line, []byte(name)) {
			return true
		}
	}
	return false
}
