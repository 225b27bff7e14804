module github.com/emco-orchestrator/emco/examples

go 1.26.0
