package orchestrator

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
)

// counted makes the API obey quotas, with a mirror that runs until the test ends. It returns a
// function that waits until the project uses so much.
func (p *controlPlane) counted(t *testing.T) (uses func(deployments, operations int64)) {
	t.Helper()
	m, usage := mirror.New(p.contexts, slog.New(slog.DiscardHandler)), quota.NewUsage()
	m.Observe(usage)
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(t.Context()) })
	t.Cleanup(running.Wait)
	p.usage = usage
	p.boot()
	return func(deployments, operations int64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			got, _, err := usage.Of(p.project)
			if err == nil && got.Deployments == deployments && got.Operations == operations {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the project uses %+v, %v; want %d deployments and %d operations", got, err, deployments, operations)
			}
		}
	}
}

func TestQuotasRefuseWithTheirNumbers(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	uses := p.counted(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	p.policy("quota", `{"quota":{"deployments":1,"clusters":2}}`)
	one, two := p.group("v1", "one"), p.group("v1", "two")
	one.make("edge")
	two.make("edge")
	one.acts("approve")
	two.acts("approve")
	uses(0, 0)
	one.acts("instantiate")
	uses(1, 1)
	refused := func(a apiAnswer, quota string, used, limit int) {
		t.Helper()
		var got struct {
			Type, Quota string
			Used, Limit int
		}
		p.must(json.Unmarshal([]byte(a.body), &got))
		if a.status != 403 || got.Type != "urn:emco:error:quota-exceeded" || got.Quota != quota || got.Used != used || got.Limit != limit {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	refused(two.act("instantiate"), "deployments", 1, 1)
	refused(two.act("instantiate?dryRun=true"), "deployments", 1, 1)
	p.work()
	p.settle()
	uses(1, 0)
	one.acts("update") // it is counted already
	p.policy("narrow", `{"quota":{"clusters":1,"operations":1,"deployments":9}}`)
	uses(1, 1)
	p.policy("more", `{"quota":{"operations":5}}`)
	refused(two.act("instantiate"), "deployments", 1, 1)
	p.work()
	p.settle()
	uses(1, 0)
	refused(one.act("update"), "clusters", 2, 1)
	p.want(201, "PUT projects/shop/policies/quota", `{"metadata":{"name":"quota"},"spec":{}}`)
	p.want(201, "PUT projects/shop/policies/narrow", `{"metadata":{"name":"narrow"},"spec":{"quota":{"operations":0}}}`)
	refused(one.act("update"), "operations", 0, 0)
	one.acts("terminate")
	uses(0, 0)
}

// Rendered objects and bytes are refused before anything is delivered: by a dry run with the numbers,
// and by the operation with the reason in the status. What is delivered stays, and a deployment that
// would use no more than now is never refused.
func TestQuotasOfObjectsAndBytesRefuseBeforeDelivery(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	uses := p.counted(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	one, two := p.group("v1", "one"), p.group("v1", "two")
	for _, g := range []testGroup{one, two} {
		g.make("edge")
		g.acts("approve")
	}
	one.acts("instantiate")
	p.work()
	p.settle()
	uses(1, 0)
	head := one.head()
	if head.Use.Clusters != 2 || head.Use.Objects == 0 || head.Use.Bytes == 0 || head.Use.Objects%2 != 0 {
		t.Fatalf("the first deployment uses %+v", head.Use)
	}
	if st := one.status(); st.Use == nil || *st.Use != v2.Use(head.Use) {
		t.Errorf("the status says %+v, the head %+v", st.Use, head.Use)
	}
	for _, quota := range []struct {
		name string
		used int64
	}{{"objects", head.Use.Objects}, {"bytes", head.Use.Bytes}, {"targets", 2}} {
		limit := quota.used + quota.used/2
		p.policy("quota-"+quota.name, fmt.Sprintf(`{"quota":{%q:%d}}`, quota.name, limit))
		a := two.act("instantiate?dryRun=true")
		var got struct {
			Type, Quota, Policy, Detail string
			Used, Wanted, Limit         int64
		}
		p.must(json.Unmarshal([]byte(a.body), &got))
		own, longer := got.Wanted-got.Used, int64(0)
		if quota.name == "bytes" {
			longer = 10 * head.Use.Objects // the ids in labels differ in length
		}
		if a.status != 403 || got.Quota != quota.name || got.Policy != "quota-"+quota.name || got.Used != quota.used || own < quota.used-longer || own > quota.used+longer || got.Limit != limit {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if quota.name != "targets" { // which is known before the apps are rendered
			two.acts("instantiate")
			p.work()
			want := fmt.Sprintf("project %s: quota %s of policy quota-%s is %d: others use %d, and this deployment would use %d instead of 0", p.project, quota.name, quota.name, limit, quota.used, own)
			if st := two.status(); !strings.Contains(st.Failure, want) || two.head().Rev != 0 {
				t.Errorf("the status says %q and revision %d; want %q", st.Failure, two.head().Rev, want)
			}
			two.acts("terminate")
		}
		replace := func(spec string) {
			path := "projects/" + p.project + "/policies/quota-" + quota.name
			p.want(201, "PUT "+path, fmt.Sprintf(`{"metadata":{"name":"quota-%s"},"spec":%s}`, quota.name, spec))
		}
		replace(fmt.Sprintf(`{"quota":{%q:1}}`, quota.name))
		uses(1, 0)
		one.acts("update") // it uses no more than now
		p.work()
		p.settle()
		uses(1, 0)
		if one.head().Failure != "" {
			t.Errorf("an update without growth: %s", one.head().Failure)
		}
		a = p.send(apiRequest{do: "GET projects/" + p.project + "/usage"})
		if want := fmt.Sprintf(`{"name":%q,"used":%d,"limit":1,"policy":"quota-%s"}`, quota.name, quota.used, quota.name); a.status != 200 || !strings.Contains(a.body, want) {
			t.Errorf("usage: %d %s; want %s", a.status, a.body, want)
		}
		replace(`{}`)
	}
	two.acts("instantiate")
	p.work()
	p.settle()
	if two.head().Rev == 0 {
		t.Error("without limits the second deployment has no revision")
	}
}
