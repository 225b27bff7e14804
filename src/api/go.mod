module github.com/emco-orchestrator/emco/src/api

go 1.26.0
