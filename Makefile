# Everything runs with Go alone; the power-loss tests also want root, nftables
# and iproute2 for network namespaces, and use user-space links without.
# What a target's help writes in capitals is a variable: make sim MINUTES=5.

LINT_VERSION := v2.15.0
# The version is in the path, so that a new one is not mistaken for the old.
LINT := $(CURDIR)/build/bin/$(LINT_VERSION)/golangci-lint

# make unit vets all packages. Without this, go test would vet their dependencies again for each set
# of flags, which takes a third of the time of compiling them. go env also knows flags that were set
# with go env -w.
# With -trimpath, all clones share what is compiled. A slow machine needs more than go test's ten minutes.
export GOFLAGS := $(shell go env GOFLAGS) -vet=off -trimpath -timeout=40m

GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := $(CURDIR)/build/bin/$(GOTESTSUM_VERSION)/gotestsum

VULN_VERSION := v1.9.0
VULN := $(CURDIR)/build/bin/$(VULN_VERSION)/govulncheck

# What a release compiles with: one without known faults. .goreleaser.yaml and
# cmd/zonelect-sidecar/Containerfile name it, too.
RELEASE_GO := go1.27.3

# The versions of Kubernetes besides that of test/programs/controlplane/go.mod.
VERSIONS := $(basename $(notdir $(wildcard test/programs/controlplane/v*.mod)))

ACTIONLINT_VERSION := v1.7.12

# The modules of the workspace, and those outside it.
MODULES := . cmd/kubectl-zonelect cmd/zonelect-sidecar operator/ctrlruntime operator/leaderelection operator/prometheus examples test
OUTSIDE_MODULES := test/programs/become test/programs/controlplane test/programs/kubebuilder test/programs/kubectl

# The modules that a release tags.
PUBLISHED := $(filter-out test,$(MODULES))

# The programs among them, which demand the newest versions. The others demand the oldest.
PROGRAMS := $(filter cmd/%,$(PUBLISHED))
LIBRARIES := $(filter-out $(PROGRAMS),$(PUBLISHED))

# $(call each,MODULES,COMMAND) runs a command in modules, up to the first failure.
each = @set -e; for m in $(1); do echo "$$m: $(2)"; (cd $$m && $(2)); done

# Variables that are for the command line alone, not for the environment.
ARGS :=
RUN :=
OUTSIDE :=

.DEFAULT_GOAL := help

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check
check: lint ## gofmt, go vet, lint and the unit tests that matter: before each push (3 min)
	$(call each,. cmd/kubectl-zonelect cmd/zonelect-sidecar operator/ctrlruntime operator/leaderelection operator/prometheus,go test ./...)

# Stages of make test and their limits. A slow machine runs the same, only for longer. With -j3, one
# part of a stage compiles while another downloads.
STAGES := lint:60m unit:60m race:60m gate:60m

.PHONY: test
test: ## The gate: lint, unit, race and gate (15 min; 30 min with nothing downloaded or built)
	@for stage in $(STAGES); do \
		from=$$(date +%s); timeout --foreground -k 60 $${stage#*:} $(MAKE) --no-print-directory -j3 $${stage%:*}; rc=$$?; \
		echo "== make $${stage%:*} took $$(($$(date +%s) - from)) s$$([ $$rc != 124 ] || echo ", more than its limit of $${stage#*:}")"; \
		[ $$rc = 0 ] || exit $$rc; \
	done

.PHONY: nightly
nightly: ## What make test leaves out, in BUDGET=150m; goes on after failures
	.ci/nightly $(BUDGET)

# One go build for all of them keeps both cores busy.
DEMO := $(addprefix ./test/programs/,demo candidate peer front)

.PHONY: demo
demo: ## Cut a zone's power, beside client-go (90 s); REAL=1: compile Kubernetes
	@mkdir -p build/bin
	@[ -x build/bin/demo ] || echo "Compiling the demo. The first time takes three to four minutes on two cores."
	go build net/http html/template & go build -o build/bin/ $(DEMO) # the first compiles while the second downloads
	build/bin/demo $(if $(REAL),--real)

.PHONY: test-long
test-long: ## The testbed itself (5 min)
	cd test && go test -v -count=1 -timeout 60m ./kit/testbed/

# SHORT= runs the long simulations, too.
SHORT := -short

# The tests of the module test that unit leaves out: gate runs them.
NOT_UNIT := /suites/e2e$$

.PHONY: unit
unit: $(GOTESTSUM) ## The unit tests of all modules (5 min); SHORT=: with the long simulations
	@rm -rf build/unit && mkdir -p build/unit
	@set -e; skip=$$(go run ./test/programs/verdict skip); for m in $(PUBLISHED) test; do \
		all=./...; [ $$m != test ] || all=$$(cd test && go list ./... | grep -vE '$(NOT_UNIT)'); \
		echo "$$m: go test -count=1 $(SHORT)"; \
		(cd $$m && $(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile $(CURDIR)/build/unit/module-$$(echo $$m | tr / -).json \
			-- -count=1 $(SHORT) -skip "$$skip" $$all); \
	done
	go run ./test/programs/verdict judge build/unit/*.json

$(GOTESTSUM):
	GOBIN=$(@D) GOWORK=off go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)

.PHONY: vet
vet:
	@files=$$(git ls-files '*.go' | xargs gofmt -l) && [ -z "$$files" ] || { echo "not formatted: $$files" >&2; exit 1; }
	$(call each,$(MODULES),go vet ./...)
	$(call each,test,go vet -tags long ./suites/e2e/)

PKG := .

# Half of the runs are on one processor. Six at a time keep two cores busy.
.PHONY: stress
stress: ## The tests RUN=REGEXP of a package PKG=./zone, 50 times under load, before they enter the gate
	mkdir -p build && cd $(PKG) && go test -c -race -o $(CURDIR)/build/stress.test . && GOWORK=off go run golang.org/x/tools/cmd/stress@v0.41.0 -p 6 -count 50 \
		$(CURDIR)/build/stress.test -test.short -test.run '$(or $(RUN),.)' -test.cpu 1,2 -test.timeout 10m

# On one processor: several threads that run due timers of one bubble of testing/synctest crash the
# runtime of Go 1.26 (golang/go#78156).
.PHONY: race
race: ## The race detector on the packages that hold the rules
	GOMAXPROCS=1 go test -p 2 -race -count=1 -short ./election/... ./locks/... ./operator/...
	cd operator/ctrlruntime && GOMAXPROCS=1 go test -p 2 -race -count=1 -short ./...

.PHONY: race-all
race-all: ## The race detector on all packages; SHORT=: with the long simulations
	go test -race $(SHORT) ./...
	$(call each,cmd/zonelect-sidecar operator/ctrlruntime operator/leaderelection operator/prometheus examples,go test -race $(SHORT) ./...)
	cd test && go test -race -short ./suites/telemetry/

.PHONY: gate
gate: ## Real programs on one control plane (3 min; ten with nothing built); what fails runs once more
	.ci/gate

.PHONY: e2e
e2e: ## The same and all other tests on control planes (20 min); RUN=REGEXP: these
	cd test && go test -v -count=1 -tags long $(if $(RUN),-run '$(RUN)') -timeout 60m ./suites/e2e/ $(ARGS)

# What runs on each version of Kubernetes besides the gate: what a scaffold knows of itself, and the shield.
COMPAT := ^(TestAScaffoldThat|TestAScaffoldWith|TestTheShieldGoes|TestWhatWasNotJudged)

.PHONY: compat
compat: ## The main ones on other versions of Kubernetes (85 min, mostly builds); VERSIONS=v1.35.4
	set -e; cd test; for v in $(VERSIONS); do \
		ZONELECT_KUBERNETES=$$v go test -v -count=1 -timeout 25m ./suites/e2e/; \
		ZONELECT_KUBERNETES=$$v go test -v -count=1 -timeout 25m -tags long -run '$(COMPAT)' ./suites/e2e/; \
	done

.PHONY: lint
lint: vet $(LINT) alone actionlint ## gofmt, go vet, golangci-lint, actionlint; OUTSIDE=1: what go.work leaves out (30 min)
	$(if $(OUTSIDE),$(call each,$(OUTSIDE_MODULES),GOWORK=off $(LINT) run --allow-parallel-runners .),$(call each,$(MODULES),$(LINT) run --allow-parallel-runners ./...))

.PHONY: alone
alone:
	@for m in $(PUBLISHED); do .ci/alone $$m go list -deps ./... >/dev/null || { echo "in $$m/go.mod, as it is without the workspace"; exit 1; }; done

.PHONY: actionlint
actionlint:
	GOWORK=off go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(LINT):
	GOBIN=$(@D) GOWORK=off go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

SYSTEMS := darwin windows

.PHONY: cross
cross: ## Build for macOS and Windows what people run there (minutes); SYSTEMS=windows
	for os in $(SYSTEMS); do GOOS=$$os go build ./... && (cd cmd/kubectl-zonelect && GOOS=$$os go build -o /dev/null .) || exit; done

# The oldest Go that the libraries support, in its newest release. Their go.mod files name the
# oldest versions of everything else.
FLOOR := go1.25.14

.PHONY: floor
floor: ## Test with the oldest Go and dependencies (5 min); SHORT=: with the long simulations
	@set -e; for m in $(LIBRARIES); do echo "$$m:"; \
		.ci/alone $$m env FLOOR=1 GOTOOLCHAIN=$(FLOOR) sh -c 'go build ./... && go test $(SHORT) -timeout 30m ./...'; done

VULN_DB ?= https://vuln.go.dev

.PHONY: vuln
vuln: $(VULN) ## Known vulnerabilities that the code can reach; VULN_DB=file:///a/copy
	@set -e; for m in $(PROGRAMS); do echo "$$m, as go install builds it:"; \
		work=$$(.ci/workspace . $$m); (cd $$m && GOWORK=$$work GOTOOLCHAIN=$(RELEASE_GO) $(VULN) -db $(VULN_DB) ./...); done
	$(call each,$(PUBLISHED),GOTOOLCHAIN=$(RELEASE_GO) $(VULN) -db $(VULN_DB) ./...)

$(VULN):
	GOBIN=$(@D) GOWORK=off GOTOOLCHAIN=$(RELEASE_GO) go install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)

.PHONY: packaging
packaging: ## Manifests, release and the documents' commands, as a newcomer gets them (15 min)
	cd test && go test -v -count=1 -timeout 60m $(if $(RUN),-run '$(RUN)') ./suites/packaging/

.PHONY: chaos
chaos: ## Faults beside client-go, as root (10 min); ARGS='--minutes 480': 8 h
	cd test && go run ./suites/chaos $(ARGS)

MINUTES := 60

.PHONY: sim
sim: ## Simulated elections, MINUTES=60 of each population; ARGS
	cd test && go run ./suites/sim/ordered -count=1 $(or $(ARGS),-v -timeout 0 -minutes $(MINUTES) -first-seed $$(date +%s))

.PHONY: model
model: ## The protocols as models, by spin and gcc, and all small schedules (7 min); ARGS='-long -memory 6000': 20 min
	go test -v -count=1 -run TestNoSmallSchedule ./election -explore
	go run ./test/suites/model $(ARGS)

.PHONY: mutants
mutants: ## Break the safety rules one by one: a test must find each (half an hour); ARGS='-run S5'
	go run ./test/suites/mutants $(ARGS)

FUZZTIME := 60s

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME=60s (half an hour)
	@set -e; for m in . cmd/kubectl-zonelect; do cd $(CURDIR)/$$m; for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p: $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p; \
		done; done; done

.PHONY: measure
measure: ## SIGTERM, kill and idle load beside client-go, as three tables (15 min); ARGS='-kills 50'
	cd test && go run ./suites/measure $(ARGS)

.PHONY: candidate
candidate: ## The program that tests and demos elect, as build/bin/candidate
	go build -o build/bin/candidate ./test/programs/candidate

.PHONY: release
release: ## Check and tag VERSION=v0.1.0 of all modules; says what to push (half an hour)
	.ci/release $(VERSION)
