# `make` alone lists what there is. Go is all that is needed; Java and Maven add the tests against a real Kafka.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILT     ?= $(shell git log -1 --format=%cs 2>/dev/null || date -u +%F)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.built=$(BUILT)
CONNECT   := bin/connect
TOOLS     := bin/tools
GOTESTSUM := $(TOOLS)/gotestsum
LINTER    := $(TOOLS)/golangci-lint

# The race detector needs a C compiler. In CI there has to be one.
ifeq ($(CI),true)
RACE := -race
else
RACE := $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && echo -race)
endif

# What `make test` tests, and how long one package may take.
PKG     ?= ./...
TIMEOUT ?= 20m

comma := ,

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/connect, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(CONNECT) ./cmd/connect

.PHONY: run
run: build ## Run a pipeline: make run CONF=config/copy-exactly-once.yaml
	@test -n "$(CONF)" || { echo "which pipeline? make run CONF=config/copy-exactly-once.yaml" >&2; exit 2; }
	$(CONNECT) run $(CONF)

.PHONY: demo
demo: build ## Show exactly-once under kill -9, with a broker inside
	$(CONNECT) demo

##@ Check

.PHONY: test
test: $(GOTESTSUM) ## Run all tests; PKG=./cache/... for some, ARGS= for more flags
	$(GOTESTSUM) --format pkgname --ignore-non-json-output-lines --raw-command -- \
		tools/gotest $(RACE) -timeout $(TIMEOUT) $(ARGS) $(PKG) 2>&1

.PHONY: test-crash
test-crash: build ## Kill the binary at random on a real Kafka: N=100 SEED= SIGNAL=KILL|TERM SCENARIO=copy,…,zombie,disk,shapes,table,discovery,latest,bounded,parallelism,http,socket,generate TV=2,0 SECURITY=scram-tls; STEPS=all at every step
	TIDEGATE_CONNECT=$(CURDIR)/$(CONNECT) go test -count=1 -v -timeout 0 ./tests/crash \
		-run '$(if $(STEPS),^TestCrashAtEveryStep,^TestCrashLosesAndDoublesNothing|^TestCrashBehind|^TestCrashKeeps|^TestTroubles|^TestShapes)' -parallel 3 -crash.steps='$(STEPS)' \
		-crash.n=$(or $(N),$(if $(SCENARIO),0,100)) -crash.seed=$(or $(SEED),0) -crash.signal=$(or $(SIGNAL),KILL) \
		-crash.tv=$(or $(TV),2) -crash.scenario=$(or $(SCENARIO),copy) \
		-crash.security=$(SECURITY)

.PHONY: soak
soak: build ## Let jobs of many kinds suffer for long and stay small: SECONDS=900 SEED=; SCENARIO=backlog for slow ones before a gigabyte
	TIDEGATE_CONNECT=$(CURDIR)/$(CONNECT) go test -count=1 -v -timeout 0 ./tests/crash -crash.seed=$(or $(SEED),0) -parallel 6 \
		$(if $(filter backlog,$(SCENARIO)),-run '^TestBacklogTakesLittleMemory$$' -crash.backlog=$(or $(SECONDS),180)s,-run '^TestSoakStaysFlatAndLosesNothing$$' -crash.soak=$(or $(SECONDS),900)s)

.PHONY: parity
parity: build ## Ask Apache Flink again what tests/parity has it say, and print the table: ONLY=part of a name, UPDATE=1 to write its answers down
	TIDEGATE_CONNECT=$(CURDIR)/$(CONNECT) go test -count=1 -v -timeout 60m ./tests/parity \
		-parity.flink $(if $(UPDATE),-parity.update) -parity.only '$(ONLY)'

.PHONY: test-model
test-model: ## Visit every interleaving of the coordinator, in the large models too
	go test -count=1 -v -timeout 0 -run '^TestNoInterleaving|^TestEachBrokenRule' ./internal/checkpoint -model.full

.PHONY: lint
lint: $(LINTER) build ## Look for what the tests do not see
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		test -z "$$unformatted" || { echo "not formatted, make fmt does it:" $$unformatted >&2; exit 1; }
	go vet ./...
	$(LINTER) run ./...
	@set -- config/*.yaml; test ! -e "$$1" || { echo "$(CONNECT) lint $$*"; $(CONNECT) lint "$$@"; }

.PHONY: fuzz
fuzz: ## Run each fuzz test for a while: FUZZTIME=2m
	@go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | while read -r pkg; do \
		for name in $$(go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
			echo "$$pkg $$name"; go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(FUZZTIME),2m) "$$pkg"; \
		done; \
	done

.PHONY: bench
bench: build ## Speed, CPU and memory beside a bare client, on a real Kafka: RECORDS=4000000 SYSTEMS=floor,… ROUNDS=1 PROFILES=folder
	CGO_ENABLED=0 go build -trimpath -o bin/bench-floor ./bench/floor
	go run ./bench -connect $(CONNECT) -floor bin/bench-floor -records $(or $(RECORDS),4000000) -rounds $(or $(ROUNDS),1) \
		$(if $(SYSTEMS),-systems '$(SYSTEMS)') $(if $(PROFILES),-profiles '$(PROFILES)')

.PHONY: bench-filter
bench-filter: ## What a header filter costs the source, and what it saves, on a real Kafka: ROUNDS=5 RECORDS=500000
	go test -run '^$$' -bench '^BenchmarkHeaderFilter$$' -benchtime 1x ./plugins/kafka_flink_source -filter.rounds $(or $(ROUNDS),5) -filter.records $(or $(RECORDS),500000)
	go test -run '^$$' -bench '^BenchmarkMatch$$' ./internal/headerexpr

.PHONY: bench-micro
bench-micro: ## Run the benchmarks of single packages: BENCH=regexp PKG=./…
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem $(PKG)

.PHONY: bench-recovery
bench-recovery: build ## Time from kill -9 to the first new record, on a real Kafka: N=30 TV=2,0
	TIDEGATE_CONNECT=$(CURDIR)/$(CONNECT) go test -count=1 -v -timeout 0 ./tests/crash -run '^TestRecoveryAfterAKillIsTimed$$' \
		-crash.recovery=$(or $(N),30) -crash.tv=$(or $(TV),2$(comma)0) -crash.seed=$(or $(SEED),0)

.PHONY: bench-store
bench-store: ## See how large a state directory is after 1,000, 5,000, 10,000 and 20,000 checkpoints: N=20000
	go test -count=1 -v -timeout 0 ./cache -run '^TestDirectoryStaysSmall' -cache.records=$(or $(N),20000)

##@ Tidy

.PHONY: fmt
fmt: $(LINTER) ## Format the code
	$(LINTER) fmt ./...

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf bin

# The tools are pinned in a module of their own, so that nothing they need enters ours.
$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	go build -C tools -o ../$@ "$$(cd tools && go list -f '{{.ImportPath}}' tool | grep '/$*$$')"
	@touch $@
