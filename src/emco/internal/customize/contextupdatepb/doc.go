// Package contextupdatepb is generated from contextupdate.proto, which describes how external
// action controllers are called.
package contextupdatepb

//go:generate env GOWORK=off go run -C ../../../../../scripts/tools ./protogen ../../src/emco/internal/customize/contextupdatepb
//go:generate cp contextupdate.pb.go contextupdate_grpc.pb.go ../../../../../examples/04-controller/contextupdatepb/
