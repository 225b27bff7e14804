module github.com/emco-orchestrator/emco/scripts/bench

go 1.26.0

require (
	github.com/emco-orchestrator/emco/scripts/e2e v0.0.0
	github.com/emco-orchestrator/emco/scripts/testbed v0.0.0
	github.com/emco-orchestrator/emco/src/api v0.0.0
	github.com/emco-orchestrator/emco/src/git v0.0.0
)

require (
	github.com/cyphar/filepath-securejoin v0.7.0 // indirect
	github.com/go-git/gcfg v1.5.1-0.20230307220236-3a3c6141e376 // indirect
	github.com/go-git/go-billy/v5 v5.9.2 // indirect
	github.com/go-git/go-git/v5 v5.19.3 // indirect
	github.com/google/go-github/v60 v60.0.0 // indirect
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/jbenet/go-context v0.0.0-20150711004518-d14ea06fba99 // indirect
	github.com/klauspost/compress v1.20.2 // indirect
	github.com/pjbgf/sha1cd v0.7.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gopkg.in/warnings.v0 v0.1.2 // indirect
)

replace (
	github.com/emco-orchestrator/emco/scripts/e2e => ../e2e
	github.com/emco-orchestrator/emco/scripts/testbed => ../testbed
	github.com/emco-orchestrator/emco/src/api => ../../src/api
	github.com/emco-orchestrator/emco/src/git => ../../src/git
)
