module github.com/emco-orchestrator/emco/scripts/testbed

go 1.26.0
