package v2_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Documents whose members are looked up one by one have few of them.
func TestF18DocumentsHaveFewMembers(t *testing.T) {
	t.Parallel()
	g := v2.GroupIntent{Named: v2.Named{Metadata: v2.Metadata{Name: "g"}}, Spec: v2.GroupIntentSpec{Intent: map[string]string{}}}
	for i := range 60_000 {
		g.Spec.Intent[fmt.Sprint("c", i)] = "i"
	}
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "60000 entries are more than 100") {
		t.Errorf("a group intent: %v", err)
	}
	a := v2.AppIntent{Named: v2.Named{Metadata: v2.Metadata{Name: "a"}}}
	a.Spec.App = "web"
	for range 10_001 {
		a.Spec.Intent.AnyOf = append(a.Spec.Intent.AnyOf, v2.Selector{Provider: "p", Cluster: "c"})
	}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), "10001 selectors are more than 10000") {
		t.Errorf("an app intent: %v", err)
	}
}

// A body of the smallest values costs little, whatever it is a body of. It runs alone, because it measures the process.
func TestF17DocumentsHaveFewValues(t *testing.T) {
	for name, body := range map[string]string{
		"members": "{" + strings.Repeat(`"a":1,`, 160_000) + `"b":1}`,
		"items":   `{"x":[` + strings.Repeat("0,", 500_000) + `0]}`,
		"objects": `{"x":[` + strings.Repeat("{},", 300_000) + `{}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := v2.Decode[v2.AppIntent]([]byte(body), v2.Lenient); err == nil || !strings.Contains(err.Error(), "more than 100000 values") {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 80 {
			t.Errorf("%s: a body of %d KB allocates %d MB", name, len(body)>>10, mb)
		}
	}
}

func TestManyViolationsAreCounted(t *testing.T) {
	t.Parallel()
	_, err := v2.Decode[v2.AppIntent]([]byte("{"+strings.Repeat(`"a":1,`, 5_000)+`"b":1}`), v2.Lenient)
	if err == nil || strings.Count(err.Error(), "\n") != 51 || !strings.HasSuffix(err.Error(), "\n- and 4949 more") {
		t.Errorf("an object with 5,000 equal members: %.300v", err)
	}
}

func TestPathsOfMembersNameTheirItem(t *testing.T) {
	t.Parallel()
	body := `{"metadata":{"name":"a"},"spec":{"app":"w","intent":{"allOf":[{},{"anyOf":[{"clusterProvidr":"p"},{"clusterLabel":"a","clusterLabel":"b"}]}]}}}`
	_, err := v2.Decode[v2.AppIntent]([]byte(body), v2.Strict)
	if want := "Invalid Input:\n- spec.intent.allOf[1].anyOf[1].clusterLabel: given twice"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	_, err = v2.Decode[v2.AppIntent]([]byte(strings.Replace(body, `"clusterLabel":"a",`, "", 1)), v2.Strict)
	if want := "Invalid Input:\n- spec.intent.allOf[1].anyOf[0].clusterProvidr: there is no such member"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestNamesOfResourcesInQuotasAreKubernetes(t *testing.T) {
	t.Parallel()
	name, domain := strings.Repeat("n", 63), strings.Repeat("d", 253)
	for resource, good := range map[string]bool{
		"limits.cpu": true, "count/jobs.batch": true, "requests.hugepages-2Mi": true, "nonsense": false, "limits.cpus": false, name: false, domain + "/" + name: true,
		name + "n": false, domain + "d/" + name: false, domain + "/" + name + "n": false,
		"/cpu": false, "count/": false, "a/b/c": false, "Count/jobs": false, "cpu.": false,
	} {
		q := v2.ClusterQuota{Named: v2.Named{Metadata: v2.Metadata{Name: "q"}}, Spec: map[string]v2.Scalar{resource: "1"}}
		if err := q.Validate(); (err == nil) != good {
			t.Errorf("a quota of %.80s, %d bytes: %v", resource, len(resource), err)
		}
	}
}
