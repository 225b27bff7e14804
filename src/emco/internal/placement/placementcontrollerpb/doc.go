// Package placementcontrollerpb is generated from placementcontroller.proto, which describes how external
// placement controllers are called.
package placementcontrollerpb

//go:generate env GOWORK=off go run -C ../../../../../scripts/tools ./protogen ../../src/emco/internal/placement/placementcontrollerpb
//go:generate cp placementcontroller.pb.go placementcontroller_grpc.pb.go ../../../../../examples/04-controller/placementcontrollerpb/
