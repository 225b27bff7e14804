package kubehealth

import (
	"strings"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	long := parse(t, `{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"x"},"status":{"conditions":[
		{"type":"Ready","status":"False","message":"line\n`+strings.Repeat("é", 500)+`"}]}}`)
	if h := Of(long); len(h.Reason) > status.MaxReason || strings.Contains(h.Reason, "\n") || len(h.Reason) < 200 {
		t.Errorf("the reason has %d bytes: %q", len(h.Reason), h.Reason)
	}
}

// A panic of the rules concerns the one object: its health is Unknown.
func TestAPanicIsUnknown(t *testing.T) {
	t.Parallel()
	h := judge(parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`), func(*unstructured.Unstructured) (*kstatus.Result, error) { panic("odd object") })
	if h.Status != status.Unknown || !strings.Contains(h.Reason, "odd object") {
		t.Errorf("health is %+v, want Unknown with the cause", h)
	}
}

func TestOfMetadata(t *testing.T) {
	t.Parallel()
	if h := OfMetadata(parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`)); h != (Health{Status: status.Current}) {
		t.Errorf("health is %+v, want Current", h)
	}
	if h := OfMetadata(parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)); h.Status != status.Terminating {
		t.Errorf("health is %+v, want Terminating", h)
	}
}
