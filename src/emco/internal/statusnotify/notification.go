package statusnotify

import (
	"math"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
)

// notification is an answer in the words of the service.
func notification(s v2.Status, r *pb.StatusRegistration) *pb.StatusNotification {
	v := viewOf(r)
	out := &pb.StatusNotification{DeployedStatus: s.DeployedStatus, ReadyStatus: s.ReadyStatus, Counts: v.counts(s)}
	out.StatusValue = v.value(v.done(s))
	for _, a := range s.Apps {
		for _, c := range a.Clusters {
			out.Details = append(out.Details, v.detail(a.Name, c))
		}
	}
	for _, c := range s.Clusters {
		out.Details = append(out.Details, v.detail("", c))
	}
	if s.Cluster != nil {
		out.Details = append(out.Details, v.detail("", *s.Cluster))
	}
	return out
}

// stateMapping maps the states of resources to the values that the client asked for.
type stateMapping struct {
	ready    bool
	filtered bool
	good     string // state of a resource that is as it should be
	yes, no  pb.StatusValue
}

func viewOf(r *pb.StatusRegistration) stateMapping {
	v := stateMapping{good: string(appcontext.Applied), yes: pb.StatusValue_DEPLOYED, no: pb.StatusValue_NOT_DEPLOYED}
	if r.GetStatusType() == pb.StatusRegistration_READY {
		v = stateMapping{ready: true, good: v2.Ready, yes: pb.StatusValue_READY, no: pb.StatusValue_NOT_READY}
	}
	v.filtered = len(r.GetApps())+len(r.GetClusters())+len(r.GetResources()) > 0
	return v
}

func (v stateMapping) value(good bool) pb.StatusValue {
	if good {
		return v.yes
	}
	return v.no
}

// done reports whether the objects that pass the filter are as they should be.
func (v stateMapping) done(s v2.Status) bool {
	switch {
	case v.ready:
		return s.ReadyStatus == v2.Ready
	case v.filtered:
		return len(s.DeployedCounts) == 1 && s.DeployedCounts[v.good] > 0
	}
	return s.DeployedStatus == v2.StatusInstantiated
}

func (v stateMapping) counts(s v2.Status) map[string]int32 {
	out := map[string]int32{}
	for _, counts := range []map[string]int{s.DeployedCounts, s.ReadyCounts} {
		for state, n := range counts {
			out[state] = int32(min(n, math.MaxInt32))
		}
	}
	return out
}

func (v stateMapping) detail(app string, c v2.ClusterStatus) *pb.StatusDetail {
	out := &pb.StatusDetail{App: app, Cluster: c.Key().String(), Connectivity: c.Connectivity, Error: c.Error}
	all := true
	for _, r := range c.Resources {
		state := r.DeployedStatus + r.ReadyStatus // one of them is empty
		all = all && state == v.good
		out.Resources = append(out.Resources, &pb.ResourceDetail{
			Name: r.Name, Namespace: r.Namespace, Reason: r.Reason, Status: state, StatusValue: v.value(state == v.good),
			Gvk: &pb.Gvk{Group: r.GVK.Group, Version: r.GVK.Version, Kind: r.GVK.Kind},
		})
	}
	out.StatusValue = v.value(all)
	return out
}
