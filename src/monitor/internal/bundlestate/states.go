package bundlestate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

// stateHandler is a Writer as the handler of the watch of states.
type stateHandler Writer

// Put takes a state that is new, or has changed.
func (s *stateHandler) Put(o metav1.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		s.mu.Lock()
		s.states[keyOf(u)] = readState(u)
		s.mu.Unlock()
		s.notify()
	}
}

// Delete takes a state that was deleted.
func (s *stateHandler) Delete(o metav1.Object) {
	s.mu.Lock()
	delete(s.states, keyOf(o))
	s.mu.Unlock()
	s.notify()
}

// Replace takes all states.
func (s *stateHandler) Replace(objects []metav1.Object) {
	fresh := map[stateKey]knownState{}
	for _, o := range objects {
		if u, ok := o.(*unstructured.Unstructured); ok {
			fresh[keyOf(u)] = readState(u)
		}
	}
	s.mu.Lock()
	s.states, s.synced = fresh, true
	s.mu.Unlock()
	s.notify()
}

// Failed does nothing: until the definition of the kind is installed, or the API server
// answers again, there is nothing to write.
func (s *stateHandler) Failed(kubehealth.Failure) {}

// Resumed does nothing: a watch that resumes missed nothing.
func (s *stateHandler) Resumed() {}

func (s *stateHandler) notify() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

func keyOf(o metav1.Object) stateKey { return stateKey{o.GetNamespace(), o.GetName()} }

// readState finds out which app a state is about: its selector counts first, then its label, then
// its name, which upstream's own agent uses.
func readState(u *unstructured.Unstructured) knownState {
	selected, _, _ := unstructured.NestedString(u.Object, "spec", "selector", "matchLabels", status.DeploymentLabel)
	return knownState{
		label:  cmp.Or(selected, u.GetLabels()[status.DeploymentLabel], u.GetName()),
		ours:   u.GetLabels()[managedByLabel] == managerName,
		digest: statusDigest(u),
	}
}

func statusDigest(u *unstructured.Unstructured) string {
	body, _, _ := unstructured.NestedMap(u.Object, "status")
	return digest(body)
}

// digest identifies a status.
func digest(body tree) string {
	text, err := json.Marshal(body)
	if err != nil || len(body) == 0 {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// appNamespace returns the namespace of most objects of an app.
func appNamespace(objects []observe.Object) string {
	count := map[string]int{}
	for _, o := range objects {
		if o.Namespace != "" {
			count[o.Namespace]++
			if o.Content != "" { // rendered; it counts more than objects that the cluster created
				count[o.Namespace] += len(objects)
			}
		}
	}
	best := "default"
	for ns, n := range count {
		if n > count[best] || n == count[best] && ns < best {
			best = ns
		}
	}
	return best
}

// objectName makes the name of an object from a label, which may have capitals and
// underscores. Two labels never get the same name.
func objectName(label string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(label))
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(p, "-")
	}
	if name = strings.Trim(strings.Join(parts, "."), "."); name == label && !strings.Contains(name, "..") {
		return name
	}
	sum := sha256.Sum256([]byte(label))
	return strings.ReplaceAll(name, "..", ".") + "-" + hex.EncodeToString(sum[:4])
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
