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

// stateHandler is a Keeper as the handler of the watch of states.
type stateHandler Keeper

// Put takes a state that is new, or has changed.
func (s *stateHandler) Put(o metav1.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		s.mu.Lock()
		s.states[keyOf(u)] = read(u)
		s.mu.Unlock()
		s.poke()
	}
}

// Delete takes a state that was deleted.
func (s *stateHandler) Delete(o metav1.Object) {
	s.mu.Lock()
	delete(s.states, keyOf(o))
	s.mu.Unlock()
	s.poke()
}

// Replace takes all states.
func (s *stateHandler) Replace(objects []metav1.Object) {
	fresh := map[key]state{}
	for _, o := range objects {
		if u, ok := o.(*unstructured.Unstructured); ok {
			fresh[keyOf(u)] = read(u)
		}
	}
	s.mu.Lock()
	s.states, s.synced = fresh, true
	s.mu.Unlock()
	s.poke()
}

// Failed does nothing: until the definition of the kind is installed, or the API server
// answers again, there is nothing to write.
func (s *stateHandler) Failed(kubehealth.Failure) {}

// Resumed does nothing: a watch that resumes missed nothing.
func (s *stateHandler) Resumed() {}

func (s *stateHandler) poke() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

func keyOf(o metav1.Object) key { return key{o.GetNamespace(), o.GetName()} }

// read says what a state is about: its selector counts, then its label, then its name,
// by which EMCO's own agent goes.
func read(u *unstructured.Unstructured) state {
	selected, _, _ := unstructured.NestedString(u.Object, "spec", "selector", "matchLabels", status.DeploymentLabel)
	return state{
		label:  cmp.Or(selected, u.GetLabels()[status.DeploymentLabel], u.GetName()),
		ours:   u.GetLabels()[madeBy] == maker,
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

// home is the namespace of an app: the one that most of its own objects are in.
func home(objects []observe.Object) string {
	count := map[string]int{}
	for _, o := range objects {
		if o.Namespace != "" {
			count[o.Namespace]++
			if o.Content != "" { // rendered, and not made by the cluster
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

// objectName makes the name of an object of a label's value, which may hold capitals
// and underscores. Two values never share a name.
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
