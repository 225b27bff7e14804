// Package statusnotifypb is the generated code of the gRPC service StatusNotify; the
// contract is in statusnotify.proto.
package statusnotifypb

//go:generate env GOWORK=off go run -C ../../../../../scripts/tools ./protogen ../../src/emco/internal/statusnotify/statusnotifypb
