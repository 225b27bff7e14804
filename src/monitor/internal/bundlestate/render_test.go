package bundlestate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

func pod(i int, state string, size int) observe.Object {
	name := fmt.Sprintf("web-%04d", i)
	return observe.Object{
		Object: status.Object{Version: "v1", Kind: "Pod", Namespace: "shop", Name: name, Status: state, Content: "aa"},
		Brief:  fmt.Appendf(nil, `{"metadata":{"name":%q},"spec":{"x":%q},"status":{"y":%q}}`, name, strings.Repeat("s", size), strings.Repeat("t", size/4)),
	}
}

// A state fits into what an API server takes, whatever the app is like, and what is
// wrong is in it.
func TestStatesFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pods, size, want int }{{10, 100, 10}, {400, 4000, 400}, {3000, 4000, 600}} {
		var objects []observe.Object
		for i := range c.pods {
			objects = append(objects, pod(i, status.Current, c.size))
		}
		objects = append(objects, pod(9999, status.Failed, c.size))
		body := render(objects)
		text, err := json.Marshal(body)
		if err != nil || len(text) > 1<<20 {
			t.Errorf("%d pods make %d bytes, %v", c.pods, len(text), err)
		}
		list, _ := body["podStatuses"].([]any)
		if len(list) < c.want || !strings.Contains(string(text), "web-9999") {
			t.Errorf("%d pods of %d are shown, and the failed one: %v", len(list), c.pods, strings.Contains(string(text), "web-9999"))
		}
		if body["ready"] != false || body["resourceCount"] != float64(c.pods+1) {
			t.Errorf("ready is %v, count %v", body["ready"], body["resourceCount"])
		}
	}
}

func TestNamesOfStates(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for label, same := range map[string]bool{"42-web": true, "42-web.v2": true, "42-Web": false, "42-web_a": false, "42-web-a": true, "a..b": false, "a.-b": false} {
		name := objectName(label)
		if (name == label) != same || seen[name] != "" || strings.ToLower(name) != name || strings.ContainsAny(name, "_") || strings.Contains(name, "..") {
			t.Errorf("objectName(%s) = %s, the same: want %v; it is taken by %q", label, name, same, seen[name])
		}
		seen[name] = label
	}
}

func TestTheHomeOfAnApp(t *testing.T) {
	t.Parallel()
	object := func(ns, content string) observe.Object {
		return observe.Object{Object: status.Object{Namespace: ns, Content: content}}
	}
	for want, objects := range map[string][]observe.Object{
		"default": {object("", "a")},
		"shop":    {object("shop", "a"), object("monitoring", ""), object("monitoring", "")},
		"a":       {object("b", "x"), object("a", "x")},
	} {
		if got := appNamespace(objects); got != want {
			t.Errorf("home = %s, want %s", got, want)
		}
	}
}
