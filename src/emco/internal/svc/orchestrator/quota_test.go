package orchestrator

import (
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// counted makes the API obey quotas, with a mirror that runs until the test ends. It returns a
// function that waits until the project uses so much.
func (p *controlPlane) counted(t *testing.T) (uses func(deployments, operations int)) {
	t.Helper()
	m, usage := mirror.New(p.contexts, slog.New(slog.DiscardHandler)), NewUsage()
	m.Observe(usage)
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(t.Context()) })
	t.Cleanup(running.Wait)
	p.groups.WithUsage(usage)
	return func(deployments, operations int) {
		t.Helper()
		want := projectUse{deployments, operations}
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			got, err := usage.of(p.project)
			if err == nil && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the project uses %+v, %v; want %+v", got, err, want)
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

func TestUsageCountsHeadsOnce(t *testing.T) {
	t.Parallel()
	u := NewUsage()
	if _, err := u.of("shop"); err == nil {
		t.Error("what is not counted yet is known")
	}
	const group = "projects/shop/composite-apps/till/v1/deployment-intent-groups/g"
	head := appcontext.Head{UID: "1", Subject: group, State: appcontext.Instantiated, Op: &appcontext.Operation{}}
	u.HeadChanged("1", &head)
	u.HeadChanged("1", &head)
	u.HeadChanged("2", &appcontext.Head{UID: "2", Subject: "projects/shop/logical-clouds/c", State: appcontext.Instantiated})
	u.Advanced(1)
	if got, err := u.of("shop"); err != nil || got != (projectUse{1, 1}) {
		t.Errorf("the project uses %+v, %v", got, err)
	}
	u.HeadChanged("1", nil)
	if got, _ := u.of("shop"); got != (projectUse{}) {
		t.Errorf("after its end the project uses %+v", got)
	}
}
