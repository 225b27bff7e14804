# Builds and checks everything. `make help` lists the targets.

SHELL       := /bin/bash
BIN         := $(CURDIR)/bin
MODULES     := src/api src/git src/emco src/emcoctl src/monitor
SCRIPTS     := scripts/testbed scripts/e2e scripts/bench scripts/demo
GOFUMPT     := $(BIN)/gofumpt
STATICCHECK := $(BIN)/staticcheck
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build emco, emcoctl, monitor and simfleet into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./src/emco/cmd/emco ./src/emcoctl ./src/monitor ./src/monitor/cmd/simfleet

.PHONY: run
run: build ## run emco with everything embedded, on 127.0.0.1:9015, data in ./emco-data
	$(BIN)/emco -log.format text

.PHONY: demo
demo: build ## show the whole loop in a minute: three Git clusters, two charts, no Kubernetes needed
	cd scripts/demo && GOWORK=off go run . -bin $(BIN)

.PHONY: test
test: ## run the fast tests: unit, contract, CLI scripts
	go test work
	cd scripts/testbed && GOWORK=off go test ./...

.PHONY: e2e
e2e: build ## run the acceptance tests on real Kubernetes, Flux, Git and Gitea (the first run builds them: 25 minutes)
	scripts/e2e/run.sh
	cd scripts/testbed && EMCO_TESTBED=1 GOWORK=off go test -count=1 ./integration

.PHONY: bench
bench: build ## measure beside other ways to write Git, ten minutes: docs/bench/quick.json and its tables
	cd scripts/testbed && GOWORK=off go run . build etcd kube kwok
	cd scripts/bench && GOWORK=off go run . -set quick -bin $(BIN) -out ../../docs/bench

.PHONY: bench-full
bench-full: build ## measure the rest, some hours: docs/bench/full.json; then a deployment's whole life
	cd scripts/testbed && GOWORK=off go run . build etcd kube kwok flux
	cd scripts/bench && GOWORK=off go run . -set full -bin $(BIN) -out ../../docs/bench
	scripts/e2e/run.sh bench

.PHONY: fmt
fmt: $(GOFUMPT) ## format all Go code
	$(GOFUMPT) -w src scripts

.PHONY: gen
gen: ## regenerate what is generated: golden files and option tables are checked by tests
	go generate work

.PHONY: lint
lint: $(GOFUMPT) $(STATICCHECK) ## vet, staticcheck, format check, style numbers
	go vet work
	$(STATICCHECK) work
	@for m in $(SCRIPTS); do (cd $$m && GOWORK=off go vet ./... && GOWORK=off $(STATICCHECK) ./...) || exit 1; done
	@out=$$($(GOFUMPT) -l src scripts); if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	@cd scripts/tools && GOWORK=off go run ./numbers $(addprefix ../../,$(MODULES))

.PHONY: verify
verify: ## all that must hold before a change lands
	$(MAKE) gen
	@git diff --exit-code -- . || { echo "generated files are not up to date: commit the difference above"; exit 1; }
	$(MAKE) lint
	$(MAKE) test

.PHONY: clean
clean: ## remove what was built here
	rm -rf $(BIN)

$(GOFUMPT) $(STATICCHECK): scripts/tools/go.mod scripts/tools/go.sum
	@mkdir -p $(BIN)
	cd scripts/tools && GOWORK=off go build -o $(BIN)/ tool
	@touch $(GOFUMPT) $(STATICCHECK)
