package v2

import "time"

// Event is an event of a deployment. GET …/events lists the oldest first. It is an
// addition to upstream's API.
type Event struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"` // "Normal" or "Warning"
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Actor    string    `json:"actor,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	App      string    `json:"app,omitempty"`
	Cluster  string    `json:"cluster,omitempty"` // <provider>+<cluster>
	Trace    string    `json:"trace,omitempty"`   // id of the OpenTelemetry trace that the request began, if it is recorded
}

// EventsAnswer is the answer to GET …/events. With ?follow=true the answer is a stream
// of single Events instead, one JSON document a line (application/x-ndjson), that ends
// when the client disconnects.
type EventsAnswer struct {
	StatusSubject
	Events   []Event `json:"events"`
	Continue string  `json:"continue,omitempty"` // token of the next page, with ?limit=
}
