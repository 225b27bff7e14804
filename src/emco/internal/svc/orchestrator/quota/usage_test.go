package quota_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
)

func TestUsageCountsHeadsOnce(t *testing.T) {
	t.Parallel()
	u := quota.NewUsage()
	if _, _, err := u.Of("shop"); err == nil {
		t.Error("what is not counted yet is known")
	}
	const group = "projects/shop/composite-apps/till/v1/deployment-intent-groups/g"
	head := appcontext.Head{UID: "1", Document: group, State: appcontext.Instantiated, Op: &appcontext.Operation{}, Use: appcontext.Use{Clusters: 2, Objects: 6, Bytes: 900}}
	u.HeadChanged("1", &head)
	u.HeadChanged("1", &head)
	u.HeadChanged("2", &appcontext.Head{UID: "2", Document: "projects/shop/logical-clouds/c", State: appcontext.Instantiated})
	u.Advanced(1)
	if all, one, err := u.Of("shop", "1"); err != nil || all != (quota.Use{Deployments: 1, Operations: 1, Targets: 2, Objects: 6, Bytes: 900}) || one != all {
		t.Errorf("the project uses %+v, the deployment %+v, %v", all, one, err)
	}
	passed := head
	passed.MovedTo = "3" // what it had on clusters belongs to another head
	u.HeadChanged("1", &passed)
	if all, _, _ := u.Of("shop"); all != (quota.Use{Deployments: 1, Operations: 1}) {
		t.Errorf("after a migration the project uses %+v", all)
	}
	u.HeadChanged("1", nil)
	if all, _, _ := u.Of("shop"); all != (quota.Use{}) {
		t.Errorf("after its end the project uses %+v", all)
	}
}
