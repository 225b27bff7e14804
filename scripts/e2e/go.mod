module github.com/emco-orchestrator/emco/scripts/e2e

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/emco-orchestrator/emco/scripts/release v0.0.0
	github.com/emco-orchestrator/emco/scripts/testbed v0.0.0
	github.com/emco-orchestrator/emco/src/api v0.0.0
	github.com/emco-orchestrator/emco/src/git v0.0.0
	github.com/google/go-containerregistry v0.22.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sync v0.23.0
)

require (
	github.com/agext/levenshtein v1.2.3 // indirect
	github.com/containerd/typeurl/v2 v2.3.0 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/moby/buildkit v0.28.1 // indirect
	github.com/moby/docker-image-spec v1.3.1 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/tonistiigi/go-csvvalue v0.0.0-20240814133006-030d3b2625d0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require (
	github.com/cyphar/filepath-securejoin v0.7.0 // indirect
	github.com/go-git/gcfg v1.5.1-0.20230307220236-3a3c6141e376 // indirect
	github.com/go-git/go-billy/v5 v5.9.2 // indirect
	github.com/go-git/go-git/v5 v5.19.3 // indirect
	github.com/jbenet/go-context v0.0.0-20150711004518-d14ea06fba99 // indirect
	github.com/klauspost/compress v1.20.2 // indirect
	github.com/pjbgf/sha1cd v0.7.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gopkg.in/warnings.v0 v0.1.2 // indirect
)

replace (
	github.com/emco-orchestrator/emco/scripts/release => ../release
	github.com/emco-orchestrator/emco/scripts/testbed => ../testbed
	github.com/emco-orchestrator/emco/src/api => ../../src/api
	github.com/emco-orchestrator/emco/src/git => ../../src/git
)
