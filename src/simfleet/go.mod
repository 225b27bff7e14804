module github.com/emco-orchestrator/emco/src/simfleet

go 1.26.0

require (
	github.com/emco-orchestrator/emco/examples v0.0.0
	github.com/emco-orchestrator/emco/src/api v0.0.0
	github.com/emco-orchestrator/emco/src/git v0.0.0
	github.com/emco-orchestrator/emco/src/monitor v0.0.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/cyphar/filepath-securejoin v0.7.0 // indirect
	github.com/go-git/gcfg v1.5.1-0.20230307220236-3a3c6141e376 // indirect
	github.com/go-git/go-billy/v5 v5.9.2 // indirect
	github.com/go-git/go-git/v5 v5.19.3 // indirect
	github.com/jbenet/go-context v0.0.0-20150711004518-d14ea06fba99 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/pjbgf/sha1cd v0.7.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gopkg.in/warnings.v0 v0.1.2 // indirect
)

replace (
	github.com/emco-orchestrator/emco/examples => ../../examples
	github.com/emco-orchestrator/emco/src/api => ../api
	github.com/emco-orchestrator/emco/src/git => ../git
	github.com/emco-orchestrator/emco/src/kubehealth => ../kubehealth
	github.com/emco-orchestrator/emco/src/monitor => ../monitor
)
