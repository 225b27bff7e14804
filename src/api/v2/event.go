package v2

import (
	"strings"
	"time"
)

// Event is an event of a deployment. GET …/events lists the oldest first. It is an
// addition to upstream's API.
type Event struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`   // "Normal" or "Warning"
	Reason   string    `json:"reason"` // see EventReasons
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

// The reasons of events, of which EventReasons has all. Users filter by them, so they stay as they are.
const (
	EventReasonApproved          = "Approved"
	EventReasonInstantiated      = "Instantiated"
	EventReasonUpdated           = "Updated"
	EventReasonRolledBack        = "RolledBack"
	EventReasonMigrated          = "Migrated"
	EventReasonTerminated        = "Terminated"
	EventReasonStopped           = "Stopped"
	EventReasonPromoted          = "Promoted"
	EventReasonRevisionPublished = "RevisionPublished"
	EventReasonOperationFailed   = "OperationFailed"
	EventReasonAppFailed         = "AppFailed"

	EventReasonApplied      = "Applied"
	EventReasonFailed       = "Failed"
	EventReasonHookFailed   = "HookFailed"
	EventReasonBlocked      = "Blocked"
	EventReasonUnblocked    = "Unblocked"
	EventReasonRemoved      = "Removed"
	EventReasonReady        = "Ready"
	EventReasonNotReady     = "NotReady"
	EventReasonExternalEdit = "ForeignEdit" // the name that users and stored pairs know
	EventReasonMoved        = "Moved"

	EventReasonHooksComplete   = "HooksComplete"
	EventReasonAborted         = "Aborted"
	EventReasonWorkflowStarted = "WorkflowStarted"
)

// EventReasons returns all reasons of events, in order of docs/events.md.
func EventReasons() []string {
	return []string{
		EventReasonApproved, EventReasonInstantiated, EventReasonUpdated, EventReasonRolledBack, EventReasonMigrated, EventReasonTerminated, EventReasonStopped, EventReasonPromoted, EventReasonRevisionPublished, EventReasonOperationFailed, EventReasonAppFailed,
		"InstantiateStopped", "TerminateStopped", // of logical clouds, networks and addons
		EventReasonApplied, EventReasonFailed, EventReasonHookFailed, EventReasonBlocked, EventReasonUnblocked, EventReasonRemoved, EventReasonReady, EventReasonNotReady, EventReasonExternalEdit, EventReasonMoved,
		EventReasonHooksComplete, EventReasonAborted, EventReasonWorkflowStarted,
		WorkflowEventReason(RunSucceeded), WorkflowEventReason(RunFailed), WorkflowEventReason(RunCanceled),
		WorkflowEventReason("start"), WorkflowEventReason("cancel"), WorkflowEventReason("retry"), WorkflowEventReason("skip"), WorkflowEventReason("abort"),
		PolicyIntentEventReason(EventRefused), PolicyIntentEventReason(EventFailed),
	}
}

// WorkflowEventReason returns the reason of the event when a workflow gets into a state, or a user asks for an action on it.
func WorkflowEventReason(what string) string { return "Workflow" + capitalized(what) }

// PolicyIntentEventReason returns the reason of the event when a policy intent did not act, by the outcome.
func PolicyIntentEventReason(outcome string) string { return "PolicyIntent" + capitalized(outcome) }

func capitalized(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
