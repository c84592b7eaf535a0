# Everything runs with Go alone; the power-loss tests also want root, nftables
# and iproute2 for network namespaces, and use user-space links without.

LINT_VERSION := v2.15.0
# The version is in the path, so that a new one is not mistaken for the old.
LINT := $(CURDIR)/build/bin/$(LINT_VERSION)/golangci-lint

# make vet vets all packages. Without this, go test would vet their dependencies again for each set
# of flags, which takes a third of the time of compiling them. go env also knows flags that were set
# with go env -w.
export GOFLAGS := $(shell go env GOFLAGS) -vet=off

# race and floor leave out the long simulations, unless SHORT= is empty.
SHORT := -short

VULN_VERSION := v1.9.0
VULN_DB ?= https://vuln.go.dev
VULN := $(CURDIR)/build/bin/$(VULN_VERSION)/govulncheck

# What a release compiles with: one without known faults. cmd/kubectl-zonelect/dist/build.go and
# cmd/zonelect-sidecar/Containerfile name it, too.
RELEASE_GO := go1.27.3

# The versions of Kubernetes besides that of test/programs/controlplane/go.mod.
VERSIONS := $(basename $(notdir $(wildcard test/programs/controlplane/v*.mod)))

PLAYWRIGHT_VERSION := 1.65.1
ACTIONLINT_VERSION := v1.7.12

# The modules of the workspace, and those outside it.
MODULES := . cmd/kubectl-zonelect cmd/zonelect-sidecar operator/ctrlruntime operator/prometheus examples test
OUTSIDE := test/programs/controlplane test/programs/collector test/programs/helm test/programs/kubectl test/suites/scale/plots

# The modules that a release tags.
PUBLISHED := $(filter-out test,$(MODULES))

# The programs among them, which demand the newest versions. The others demand the oldest.
PROGRAMS := $(filter cmd/%,$(PUBLISHED))
LIBRARIES := $(filter-out $(PROGRAMS),$(PUBLISHED))

# $(call each,MODULES,COMMAND) runs a command in modules, up to the first failure.
each = @set -e; for m in $(1); do echo "$$m: $(2)"; (cd $$m && $(2)); done

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build/demo/virtual.html ## Cut a zone's power on a real control plane, beside client-go; LEGACY=1: and leader-for-life (10 min)
	go run ./test/programs/demo $(if $(LEGACY),--legacy)

# The first build of the demo takes minutes, and that of its control plane more. This takes about one.
build/demo/virtual.html:
	@echo "Drawing a minute of an election in virtual time, for those who wait for the demo's first build."
	@mkdir -p $(@D)
	@go test -count=1 ./test/programs/demo/virtual -page $(CURDIR)/$@
	@echo
	@echo "Open $@ meanwhile: an outage of the API, a loss of power and a handover."
	@echo "Compiling the demo. The first time takes about three minutes on two cores."

.PHONY: timeline
timeline: ## Open pages of who led when in Chromium (Debian's chromium, nodejs and npm), with pictures in build/timeline (2 min)
	mkdir -p build/timeline
	if command -v npm; then npm install --silent --no-save --ignore-scripts --prefix build/timeline playwright-core@$(PLAYWRIGHT_VERSION); fi
	cd test && go test -v -count=1 ./suites/timeline/

.PHONY: chart
chart: ## Lint the Helm chart, and hold what it and config/name render against config and the library (a minute; the first build of helm takes minutes)
	cd test && go test -v -count=1 -timeout 30m ./suites/chart/

.PHONY: candidate
candidate: ## Build the program that tests and demos elect, as build/bin/candidate
	go build -o build/bin/candidate ./test/programs/candidate

.PHONY: check
check: vet lint ## gofmt, go vet, lint and the unit tests that matter: before each push (3 min)
	$(call each,. cmd/kubectl-zonelect cmd/zonelect-sidecar operator/ctrlruntime operator/prometheus,go test ./...)

.PHONY: test
test: vet unit race e2e ## Unit tests, race detector, a real control plane (15 min)

.PHONY: test-long
test-long: churn testbed e2e-long alerts-live traces ## The other tests on real control planes: every fault and migration, alerts that fire, traces (45 min)

.PHONY: unit
unit: ## Unit tests, all modules
	$(call each,$(PUBLISHED),go test ./...)
	cd test && go test -short $$(go list ./... | grep -v /sim$$)
	cd test && go test ./suites/sim/

.PHONY: race
race: ## The race detector on the library and the examples, without the long simulations; SHORT=: with them
	go test -race $(SHORT) ./...
	$(call each,cmd/zonelect-sidecar operator/ctrlruntime operator/prometheus examples,go test -race $(SHORT) ./...)
	cd test && go test -race $(SHORT) ./suites/telemetry/...

.PHONY: churn
churn: ## A minute of 50 electors that come and go, with the race detector
	ZONELECT_CHURN=60s go test -race -count=1 -run InRealTime ./operator

.PHONY: e2e
e2e: ## The main tests on a real control plane (5 min; the first build of it takes minutes)
	cd test && go test -v -count=1 -tags core -timeout 20m ./suites/e2e/

.PHONY: e2e-long
e2e-long: ## The other tests on a real control plane; SKIP=: a regular expression of those to leave out
	cd test && go test -v -count=1 -tags long -timeout 60m -skip 'TestAlertsFireAndClear$(if $(SKIP),|$(SKIP))' ./suites/e2e/

.PHONY: testbed
testbed: ## Tests of the testbed itself: its faults do what they say (5 min)
	cd test && go test -v -count=1 -tags long -timeout 20m ./kit/testbed/

.PHONY: programs
programs: ## Compile the programs of others that tests build when they need them, besides the control plane (minutes)
	$(call each,test/programs/helm test/programs/kubectl test/programs/collector,GOWORK=off go build -o /dev/null .)

.PHONY: alerts-live
alerts-live: ## Alerts that fire and clear in a real Prometheus beside real candidates (Debian's prometheus; 9 min, most of them waits)
	cd test && go test -v -count=1 -tags long -timeout 40m -run TestAlertsFireAndClear ./suites/e2e/

FAILOVERS := 3

.PHONY: traces
traces: ## Traces that a real collector gets of FAILOVERS=3 power losses, kills and handovers, beside what is seen from outside (4 min)
	cd test && ZONELECT_FAILOVERS=$(FAILOVERS) go test -v -count=1 -timeout $$((10 + 3 * $(FAILOVERS)))m ./suites/traces/

.PHONY: chaos
chaos: ## Faults of every kind on a real control plane, beside client-go: a seeded selection (10 min)
	cd test && go run ./suites/chaos

HOURS := 8
BEDS := 1

.PHONY: soak
soak: ## The same for HOURS=8, on BEDS=1 control planes at a time, appended to build/chaos.jsonl, where the next one goes on
	cd test && go run ./suites/chaos --minutes $$(($(HOURS) * 60)) --beds $(BEDS) --ledger build/chaos.jsonl

LOCKS := 100

.PHONY: chaos-locks
chaos-locks: ## The same faults, and those of heartbeats, for processes that keep LOCKS=100 locks by one heartbeat: a seeded selection (10 min)
	cd test && go run ./suites/chaos --locks $(LOCKS)

.PHONY: chaos-service
chaos-service: ## The same faults, with a Service that points to the leader in each run: a seeded selection (10 min)
	cd test && go run ./suites/chaos --service

.PHONY: chaos-again
chaos-again: ## The runs of build/chaos.jsonl that failed and have not passed since
	cd test && go run ./suites/chaos --rerun --minutes 0 --ledger build/chaos.jsonl

.PHONY: chaos-unguarded
chaos-unguarded: ## A zonelect without its guard: chaos must see it overlap (a minute)
	cd test && go run ./suites/chaos --unguarded

SEEDS := 1-10

.PHONY: soak-migrations
soak-migrations: ## Migrations with random faults, SEEDS=1-10 of each variant (6 min)
	cd test && go test -v -count=1 -timeout 60m -run TestAMigrationNever ./suites/e2e/ -seeds $(SEEDS)

MINUTES := 60

.PHONY: sim-long
sim-long: ## Simulated elections, MINUTES=60 of each population, from a seed of the clock's, noted in build/sim.jsonl
	mkdir -p build
	cd test && go run ./suites/sim/ordered -v -count=1 -timeout 0 -minutes $(MINUTES) -first-seed $$(date +%s) \
		-ledger $(CURDIR)/build/sim.jsonl -commit $$(git describe --always --dirty --abbrev=12 --exclude '*')

.PHONY: sim-order
sim-order: ## A seed of the simulation gives the same run (2 min, most of it builds)
	cd test && go run ./suites/sim/ordered -count=1 -run TestASeedGives

FUZZTIME := 60s

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME=60s (half an hour)
	@set -e; for m in . cmd/kubectl-zonelect; do cd $(CURDIR)/$$m; for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p: $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p; \
		done; done; done

.PHONY: bench
bench: ## What handovers, killed leaders and idling cost, beside client-go, with pages of who led when in build/bench (10 min)
	cd test && go test -v -count=1 -timeout 25m ./suites/bench/

.PHONY: bench-scale
bench-scale: ## What many locks in a process cost, beside client-go (10 min); ARGS='--locks 1,10,100,1000 --own-most 100 --crashes 100,1000 --candidates 30,300': all (26 min); ARGS=--update: a new baseline
	cd test && go run ./suites/scale $(ARGS)
	cd test && go test -run '^$$' -bench ARenewal ./suites/scale
	cd test/suites/scale/plots && GOWORK=off go run . -from $(CURDIR)/build/scale/scale.json -into $(CURDIR)/build/scale

.PHONY: bench-seconds
bench-seconds: ## The timing of three seconds on a real control plane (2.5 hours); ARGS='-quiet 1m -kills 3 -losses 10': a try
	cd test && go run ./suites/seconds $(ARGS)

.PHONY: latency
latency: ## Elections behind a slow server, wherever it spends the time, beside client-go: in virtual time (5 min), and on a real control plane (40 min); ARGS='-run constant': a part of that
	cd test && go test -v -count=1 -timeout 30m -run TestLeadershipIsKept ./suites/latency/ -whole
	cd test && go run ./suites/latency $(ARGS)

# The tests that run on each of them: that there is one leader through contests,
# kills, handovers, a lost zone and migrations.
COMPAT := AMigrationNever|ClientGoAndZonelect|TheLocksHold|TheShieldGoes|WhatWasNotJudged|FaultsAreTold|PausedLeader|InPhaseDual|LeadersZone

.PHONY: compat
compat: compat-collector $(VERSIONS:%=compat-%) ## Tests on other versions of Kubernetes (85 min, most of it builds)

.PHONY: compat-collector
compat-collector:
	cd test && go test -v -count=1 -timeout 15m ./suites/compat/

compat-v%:
	cd test && ZONELECT_KUBERNETES=v$* go test -v -count=1 -timeout 25m -run '$(COMPAT)' ./suites/e2e/

.PHONY: model
model: ## Check the protocols of migrations and heartbeats with Spin (spin and gcc on PATH; 5 min)
	go run ./test/suites/model

.PHONY: model-long
model-long: ## The same with larger populations (20 min)
	go run ./test/suites/model -long -memory 6000

.PHONY: mutants
mutants: ## Break the safety rules one at a time: a test must find each (half an hour)
	go run ./test/suites/mutants

.PHONY: cli-docs
cli-docs: ## Write docs/cli anew, from the commands of kubectl-zonelect
	cd cmd/kubectl-zonelect && go test -count=1 ./internal/reference -update

.PHONY: dist
dist: ## The files of a release of kubectl-zonelect, in build/dist; VERSION=v0.1.0: not that of git describe (minutes for each platform the first time)
	cd cmd/kubectl-zonelect && go run ./dist $(if $(VERSION),-version $(VERSION))

.PHONY: dist-check
dist-check: ## The last commit built in two folders gives the same files, and krew installs them; FRESH=1: from an empty cache (minutes for each platform)
	cd test && ZONELECT_FRESH=$(FRESH) go test -v -count=1 -timeout 3h ./suites/dist/

.PHONY: vet
vet: ## gofmt, and go vet in all modules of the workspace
	@test -z "$$(git ls-files '*.go' | xargs gofmt -l | tee /dev/stderr)"
	$(call each,$(MODULES),go vet ./...)

SYSTEMS := darwin windows

.PHONY: cross
cross: ## All that people run elsewhere is built for macOS and Windows too (minutes the first time); SYSTEMS=windows: one of them
	for os in $(SYSTEMS); do GOOS=$$os go build ./... && (cd cmd/zonelect-sidecar && GOOS=$$os go build ./...) && (cd cmd/kubectl-zonelect && GOOS=$$os go build -o /dev/null .) || exit; done

.PHONY: lint
lint: $(LINT) ## golangci-lint, all modules of the workspace (minutes the first time)
	$(call each,$(MODULES),$(LINT) run ./...)

.PHONY: lint-outside
lint-outside: $(LINT) ## golangci-lint, the modules outside the workspace, with go vet (half an hour the first time: Kubernetes, Helm)
	$(call each,$(OUTSIDE),GOWORK=off $(LINT) run .)

.PHONY: workflows
workflows: ## Lint the workflows of .github (a minute the first time)
	GOWORK=off go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(LINT):
	GOBIN=$(@D) GOWORK=off go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(VULN):
	GOBIN=$(@D) GOWORK=off GOTOOLCHAIN=$(RELEASE_GO) go install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)

.PHONY: vuln
vuln: $(VULN) ## Known vulnerabilities that the code can reach, by VULN_DB (a file:// URL goes, too): the programs as go install builds them, and everything with the newest versions (minutes)
	@set -e; for m in $(PROGRAMS); do echo "$$m, as go install builds it:"; \
		work=$$(.ci/workspace . $$m); (cd $$m && GOWORK=$$work GOTOOLCHAIN=$(RELEASE_GO) $(VULN) -db $(VULN_DB) ./...); done
	$(call each,$(PUBLISHED),GOTOOLCHAIN=$(RELEASE_GO) $(VULN) -db $(VULN_DB) ./...)

# The oldest Go that the libraries support, in its newest release. Their go.mod files name the
# oldest versions of everything else.
FLOOR := go1.25.14

.PHONY: floor
floor: ## Build and unit-test the libraries with the oldest Go, client-go and controller-runtime that they support (5 min)
	@set -e; for m in $(LIBRARIES); do echo "$$m:"; \
		.ci/alone $$m env GOTOOLCHAIN=$(FLOOR) sh -c 'go build ./... && go test $(SHORT) -timeout 30m ./...'; done

.PHONY: tidy
tidy: ## go mod tidy in all modules of the workspace, also for versions that are not released yet
	.ci/tidy

.PHONY: release-check
release-check: ## Release the newest commit in a clone, and use it as the README says, with an empty module cache (8 min)
	cd test && go test -v -count=1 -timeout 60m ./suites/release/

.PHONY: api
api: ## How the exported API differs from that of the last release; VERSION=v0.1.1: fail if that version may not
	.ci/api $(VERSION)

.PHONY: release
release: ## Check and tag VERSION=v0.1.0 of all modules; pushes nothing, and says what to push (half an hour)
	.ci/release $(VERSION)

.PHONY: clean
clean: ## Remove what was built
	rm -rf build
