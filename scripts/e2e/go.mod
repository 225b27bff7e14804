module github.com/emco-orchestrator/emco/scripts/e2e

go 1.26.0

require (
	github.com/emco-orchestrator/emco/scripts/testbed v0.0.0
	github.com/emco-orchestrator/emco/src/api v0.0.0
	github.com/emco-orchestrator/emco/src/git v0.0.0
)

require (
	golang.org/x/crypto v0.56.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/emco-orchestrator/emco/scripts/testbed => ../testbed
	github.com/emco-orchestrator/emco/src/api => ../../src/api
	github.com/emco-orchestrator/emco/src/git => ../../src/git
)
