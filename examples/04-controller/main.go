// Command controller is two external controllers.
//
// As action controller it gives each app a ConfigMap "region" on the clusters whose labels begin with the name
// of the intent and a dash: with the intent "region", a cluster with the label "region-north" gets the region "north".
//
// As placement controller (placement.go) it spreads apps over the alternatives of an anyOf.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"

	"google.golang.org/grpc"

	pb "github.com/emco-orchestrator/emco/examples/controller/contextupdatepb"
	placementpb "github.com/emco-orchestrator/emco/examples/controller/placementcontrollerpb"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9040", "address to serve gRPC at")
	flag.Parse()
	if err := serve(*address); err != nil {
		log.Fatal(err)
	}
}

// serve serves until an interrupt.
func serve(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20)) // as much as EMCO sends
	pb.RegisterContextupdateServer(server, regions{})
	placementpb.RegisterPlacementControllerServer(server, spread{})
	context.AfterFunc(ctx, server.GracefulStop)
	return server.Serve(listener)
}

type regions struct {
	pb.UnimplementedContextupdateServer
}

// UpdateAppContext answers one edit for each app and region.
func (regions) UpdateAppContext(_ context.Context, req *pb.ContextUpdateRequest) (*pb.ContextUpdateResponse, error) {
	out := &pb.ContextUpdateResponse{AppContextUpdated: true}
	for _, app := range req.GetApps() {
		in := map[string][]string{} // clusters by region
		for _, c := range app.GetClusters() {
			for _, label := range c.GetLabels() {
				if region, ok := strings.CutPrefix(label, req.GetIntentName()+"-"); ok {
					in[region] = append(in[region], c.GetProvider()+"+"+c.GetName())
				}
			}
		}
		for _, region := range slices.Sorted(maps.Keys(in)) { // equal requests have equal answers
			object := fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: region}\ndata: {region: %q}\n", region)
			out.Edits = append(out.Edits, &pb.Edit{App: app.GetName(), Clusters: in[region], Change: &pb.Edit_Object{Object: object}})
		}
	}
	return out, nil
}
