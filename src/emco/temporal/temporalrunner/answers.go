package temporalrunner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const maxResult = 64 << 10 // bytes of a result that are passed on

// textOf returns the first part of a workflow's result: a JSON string as its content, other JSON as it is.
func textOf(v converter.RawValue) string {
	p := v.Payload()
	encoding := string(p.GetMetadata()[converter.MetadataEncoding])
	text := string(p.GetData())
	switch encoding {
	case "", converter.MetadataEncodingNil:
		return ""
	case converter.MetadataEncodingJSON, converter.MetadataEncodingProtoJSON:
		var content string
		if json.Unmarshal(p.GetData(), &content) == nil {
			text = content
		}
	default:
		return fmt.Sprintf("%d bytes, encoded as %s", len(text), encoding)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxResult)], "")
}

// endOf returns how a workflow ended that did not succeed; nil if err is not about its end.
func endOf(err error) error {
	execution, ended := errors.AsType[*temporal.WorkflowExecutionError](err)
	if !ended {
		return nil
	}
	switch cause := errors.Unwrap(execution).(type) {
	case *temporal.CanceledError:
		return errors.New("it was canceled in Temporal")
	case *temporal.TerminatedError:
		return errors.New("it was terminated in Temporal")
	case *temporal.TimeoutError:
		return errors.New("it reached a time limit in Temporal; see timeoutSeconds of the intent, and whether a worker listens to its task queue")
	default:
		return fmt.Errorf("it failed: %w", cause)
	}
}

// requestError gives an error of a request its kind, and a permanent one the remedy.
func requestError(op string, j workflow.Job, err error) error {
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return errs.E(errs.NotFound, op, j.ID, fmt.Errorf("%w; the operator creates the namespace, or corrects workflows.temporal.namespace", err))
	}
	if errors.Is(err, converter.ErrUnableToEncode) {
		return errs.E(errs.Invalid, op, j.ID, fmt.Errorf("%w; correct the parameters of the intent", err))
	}
	switch serviceerror.ToStatus(err).Code() {
	case codes.NotFound:
		return errs.E(errs.NotFound, op, j.ID, fmt.Errorf("%w; retry the hook to start another one", err))
	case codes.PermissionDenied, codes.Unauthenticated:
		return errs.E(errs.Forbidden, op, j.ID, fmt.Errorf("%w; the operator checks what Temporal allows the certificate of workflows.temporal.cert", err))
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.AlreadyExists:
		return errs.E(errs.Invalid, op, j.ID, err)
	case codes.ResourceExhausted:
		return errs.E(errs.Throttled, op, j.ID, err)
	}
	return errs.E(errs.Unavailable, op, j.ID, err)
}
