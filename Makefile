# Builds and checks everything. `make help` lists the targets.

SHELL       := /bin/bash
BIN         := $(CURDIR)/bin
MODULES     := src/api src/git src/kubehealth src/emco src/emcoctl src/monitor src/simfleet
SCRIPTS     := scripts/testbed scripts/e2e scripts/bench scripts/release scripts/rules
GOFUMPT     := $(BIN)/gofumpt
STATICCHECK := $(BIN)/staticcheck
export CGO_ENABLED ?= 0
# Builds do not depend on the folder of the checkout, so all checkouts share one build cache. They have no debugging
# information: without it go test links faster, and nothing but a debugger reads it (docs/adr/0093).
export GOFLAGS ?= -trimpath -gcflags=all=-dwarf=false
# Tests mostly wait for servers and programs, so more packages than processors run at the same time.
TESTFLAGS := -p 4
# A link takes a twelfth less processor time, and no more memory; so do tests that allocate much.
test-work test-scripts test-times: export GOGC ?= 400
# On a disk, files and folders of tests cost a third of the tests' processor time, and flushes wait; in memory they do
# not (docs/adr/0089). The path is the same each time: results are cached for one value of TMPDIR. go test links on the
# disk, by the setting GOTMPDIR. T.TempDir follows that variable, so go gets it from a file, and tests do not.
LINKS := $(or $(TMPDIR),/tmp)
GO_ENV := $(BIN)/go.env
USERS_GO_ENV := $(GOENV)
test-work test-scripts test-times: export GOENV := $(GO_ENV)
test-work test-scripts test-times: export TMPDIR ?= $(shell scripts/testtmp)
test-work test-scripts test-times: $(GO_ENV)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build emco, emcoctl, monitor and simfleet into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./src/emco/cmd/emco ./src/emcoctl ./src/monitor ./src/simfleet

.PHONY: temporal
temporal: ## build emco-temporal into bin/: emco with a client of Temporal (docs/hooks.md)
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./src/emco/temporal/cmd/emco-temporal

.PHONY: run
run: build ## run emco with embedded stores, on 127.0.0.1:9015, data in ./emco-data
	$(BIN)/emco -log.format text

.PHONY: demo
demo: build ## show the whole loop in a minute, without Kubernetes; KEEP=1 leaves it running to try more
	@exec $(BIN)/emcoctl demo $(if $(KEEP),--keep)

.PHONY: images
images: ## assemble the container images of HEAD without an engine: OCI layouts in bin/release/images; ONLY=emco,monitor for some
	cd scripts/release && GOWORK=off go run . images -version "$(VERSION)" -only "$(ONLY)" -out $(BIN)/release

.PHONY: release
release: ## make the archives of HEAD for all platforms, with bills of materials and checksums, in bin/release
	cd scripts/release && GOWORK=off go run . archives -version "$(VERSION)" -out $(BIN)/release

.PHONY: env
env: ## print what make test sets, for go test in a shell with the same cached results: eval "$(make -s env)"
	@echo 'export CGO_ENABLED="$(CGO_ENABLED)" GOFLAGS="$(GOFLAGS)" TMPDIR="$(or $(TMPDIR),$(shell scripts/testtmp))"'

.PHONY: test
test: ## run the fast tests: unit, contract, CLI scripts
	@$(MAKE) --no-print-directory -j2 test-work test-scripts

.PHONY: $(GO_ENV)
$(GO_ENV): # the user's own settings, and where to link
	@mkdir -p $(BIN)
	@{ cat "$$(GOENV=$(USERS_GO_ENV) go env GOENV)" 2>/dev/null; echo; echo "GOTMPDIR=$(LINKS)"; } >$@.new && mv $@.new $@

.PHONY: test-work test-scripts
test-work:
	go test $(TESTFLAGS) work

# scripts/rules and package later read files outside of their modules, so a cached result may be old.
test-scripts:
	cd scripts/testbed && GOWORK=off go test ./...
	cd scripts/release && GOWORK=off go test ./...
	cd scripts/rules && GOWORK=off go test -count=1 ./...
	cd scripts/e2e && GOWORK=off go test -count=1 ./lanes ./later

# A result that go test finds by the binary's content alone is not kept for the next time, and the binary
# is linked again. So the cached results are those of a run of all tests. The first run that fails ends it.
.PHONY: test-times
test-times: ## run the fast tests from warm caches and print how long they take, and the slowest packages
	@out=$$(mktemp) || exit; trap 'rm -f "$$out"' EXIT; \
	all() { go test $(TESTFLAGS) work >"$$out"; }; \
	failed() { echo 'these packages fail:'; awk '!/^(ok|\?) *\t/' "$$out"; exit 1; }; \
	all || failed; \
	go clean -testcache; \
	TIMEFORMAT='all tests run again: %R s, %U s of processor time, %S s in the kernel'; \
	time all || failed; \
	awk '$$1 == "ok" { print $$3 "\t" $$2 }' "$$out" | sort -rn | head -20; \
	TIMEFORMAT='cached results: %R s'; \
	time all || failed

.PHONY: e2e
e2e: build ## run the default lanes of end-to-end tests on real parts (the first run builds these: 25 minutes)
	scripts/e2e/run.sh

.PHONY: e2e-full
e2e-full: build ## run every lane of end-to-end tests, an hour or more: scripts/e2e/run.sh lanes lists them
	cd scripts/testbed && EMCO_TESTBED=1 GOWORK=off go test -count=1 ./integration
	scripts/e2e/run.sh full

.PHONY: bench
bench: build ## compare with other ways to write Git, ten minutes: docs/bench/quick.json and its tables
	cd scripts/testbed && GOWORK=off go run . build etcd kube kwok
	cd scripts/bench && GOWORK=off go run . -set quick -bin $(BIN) -out ../../docs/bench

PART ?=
# only P17 has other real clusters than kubectl's
BENCH_BED := etcd kube kwok $(if $(and $(PART),$(if $(findstring P17,$(PART)),,other)),,flux karmada argocd ocm)
.PHONY: bench-full
bench-full: build ## run the other benchmarks, three hours: docs/bench/full.json, written after each part; then the whole life of a deployment. What is done (bench-parts/) does not run again. PART=P7,P17-00030 runs these parts alone
	cd scripts/testbed && GOWORK=off go run . build $(BENCH_BED)
	cd scripts/bench && GOWORK=off go run . -set full -only '$(PART)' -bin $(BIN) -out ../../docs/bench -parts $(CURDIR)/bench-parts
	$(if $(PART),,scripts/e2e/run.sh bench)

.PHONY: bench-services
bench-services: build ## compare one process with three on a shared etcd, a quarter of an hour: docs/bench/services.json and its tables
	cd scripts/testbed && GOWORK=off go run . build etcd
	cd scripts/bench && GOWORK=off go run . -set services -bin $(BIN) -out ../../docs/bench

CASE     ?= all
CLUSTERS ?= 1000
.PHONY: profile
profile: build ## profile one case of the benchmarks: CASE=p1, p2, p3, p7, restart, rest, requests, all or writer, CLUSTERS=1000; see profiles/
	cd scripts/bench && GOWORK=off go run ./profile -case $(CASE) -clusters $(CLUSTERS) -bin $(BIN) -out ../../profiles

.PHONY: fmt
fmt: $(GOFUMPT) ## format all Go code
	$(GOFUMPT) -w src scripts

# Releases build each module by itself: with the workspace's versions of libraries they ship what the tests ran.
.PHONY: gen
gen: ## regenerate generated files; tests check golden files and option tables
	go work sync
	go generate work
	cd scripts/release && GOWORK=off go run . changelog

.PHONY: lint
lint: $(GOFUMPT) $(STATICCHECK) ## vet, staticcheck, format check, figures of style and prose
	go vet work
	$(STATICCHECK) work
	@for m in $(SCRIPTS); do (cd $$m && GOWORK=off go vet ./... && GOWORK=off $(STATICCHECK) ./...) || exit 1; done
	@out=$$($(GOFUMPT) -l src scripts); if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	@cd scripts/tools && GOWORK=off go run ./numbers -docs ../../docs,../../README.md,../../scripts $(addprefix ../../,$(MODULES))

.PHONY: verify
verify: ## check everything that must hold before a change lands
	$(MAKE) gen
	@git diff --exit-code -- . || { echo "generated files are not up to date: commit the difference above"; exit 1; }
	$(MAKE) lint
	$(MAKE) test

.PHONY: clean
clean: ## remove built files
	rm -rf $(BIN)

$(GOFUMPT) $(STATICCHECK): scripts/tools/go.mod scripts/tools/go.sum
	@mkdir -p $(BIN)
	cd scripts/tools && GOWORK=off go build -o $(BIN)/ tool
	@touch $(GOFUMPT) $(STATICCHECK)
