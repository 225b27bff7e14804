package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	pb "github.com/emco-orchestrator/emco/examples/controller/placementcontrollerpb"
)

type spread struct {
	pb.UnimplementedPlacementControllerServer
}

// FilterClusters answers all mandatory candidates of each app, and of each anyOf as many as EMCO chooses: those with the
// lowest number. The number of a cluster follows from the names of the intent, the app and the cluster, so apps spread
// over the alternatives, equal requests have equal answers, and a new cluster takes over only what it is lowest for.
func (spread) FilterClusters(_ context.Context, req *pb.ResourceRequest) (*pb.ResourceResponse, error) {
	out := &pb.ResourceResponse{Status: true}
	for _, app := range req.GetApps() {
		choice := &pb.Choice{App: app.GetName(), Clusters: app.GetMandatory()}
		number := func(cluster string) string {
			return fmt.Sprintf("%x", sha256.Sum256([]byte(req.GetIntentName()+"\x00"+app.GetName()+"\x00"+cluster)))[:8]
		}
		lowest := ""
		for _, alternatives := range app.GetAnyOf() {
			all := slices.SortedFunc(slices.Values(alternatives.GetClusters()), func(a, b string) int {
				return slices.Compare([]byte(number(a)), []byte(number(b)))
			})
			chosen := all[:min(int(alternatives.GetCount()), len(all))]
			choice.Clusters, lowest = append(choice.Clusters, chosen...), number(chosen[0])
		}
		if lowest != "" {
			choice.Reason = "the lowest number is " + lowest
		}
		for _, alternatives := range app.GetAnyOf() {
			for _, c := range alternatives.GetClusters() {
				if !slices.Contains(choice.Clusters, c) {
					choice.LeftOut = append(choice.LeftOut, &pb.LeftOut{Clusters: []string{c}, Reason: "has the number " + number(c)})
				}
			}
		}
		out.Choices = append(out.Choices, choice)
	}
	return out, nil
}
