module github.com/emco-orchestrator/emco/scripts/demo

go 1.26.0

require github.com/emco-orchestrator/emco/src/git v0.0.0

require (
	github.com/emco-orchestrator/emco/src/api v0.0.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/emco-orchestrator/emco/src/api => ../../src/api
	github.com/emco-orchestrator/emco/src/git => ../../src/git
)
