# Targets for people and CI alike; `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOLS := hack/tools/go.mod
LINT := hack/tools/lint/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Tests run with the race detector, which needs cgo; what is shipped is static.
TESTFLAGS ?= -race
PKG ?= ./...

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build operator and egress-proxy into bin/.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/operator ./cmd/egress-proxy

.PHONY: controlplane
controlplane: ## Prepare etcd and kube-apiserver for tests and demo (once; about five minutes when built).
	@$(GO) run ./hack/controlplane >/dev/null

.PHONY: test
test: controlplane ## Run all tests with the race detector, against a real control plane, then test-crash and test-scale.
	$(GO) test $(TESTFLAGS) $(PKG)
	$(MAKE) --no-print-directory test-crash test-scale PLAINFLAGS='$(filter -json,$(TESTFLAGS))'

# What the race detector slows down too much to see all of: the same tests again, whole and without it.
PLAIN = $(GO) test -count=1 $(or $(PLAINFLAGS),-v)
QUIET = $(if $(PLAINFLAGS),,| grep -vE '^ *(---|===) (PASS|RUN|PAUSE|CONT|NAME)')

.PHONY: test-crash
test-crash: ## Kill the operator around every effect of every flow, and interleave two of them; CRASH_SEED changes the dice.
	$(PLAIN) ./test/crash $(QUIET)

.PHONY: test-scale
test-scale: ## Take a thousand Proxies through roll-outs and outages in simulated time; SCALE_SEED changes the dice.
	$(PLAIN) ./test/scale $(QUIET)

.PHONY: test-mutation
test-mutation: ## Break each numbered rule of docs/guarantees.md in turn and expect its test to go red.
	$(GO) run ./hack/mutation

.PHONY: demo
demo: build controlplane ## Show the whole system on this machine; DEMO=once ends after the proof.
	@# Not through go run, which ends with an error when it is interrupted, however orderly the demo ends.
	$(GO) build -o bin/demo ./hack/demo
	@DEMO=$(DEMO) DEMO_BIN=$(CURDIR)/bin exec bin/demo

.PHONY: bench
bench: ## Run the benchmarks; prints `bench <name> <value>`.
	$(GO) run ./hack/bench

.PHONY: lint
lint: ## Run the linters of .golangci.yml.
	$(GO) tool -modfile=$(LINT) golangci-lint run $(PKG)

.PHONY: generate
generate: ## Generate deep copies, CRDs, RBAC and the reference of flags.
	$(GO) tool -modfile=$(TOOLS) controller-gen object crd paths=./api/... output:crd:dir=config/crd
	$(GO) test ./cmd/operator -run TestFlagsReference -update
	KUBEBUILDER_ASSETS=$$($(GO) run ./hack/controlplane) $(GO) test ./internal/controller/proxy -run TestStateTableReference -update

.PHONY: verify
verify: ## Check that generated files, modules and formatting are up to date.
	$(GO) mod verify
	$(GO) mod tidy -diff
	@test -z "$$(gofmt -l api cmd hack internal pkg test 2>/dev/null)" || { echo 'not formatted:'; gofmt -l api cmd hack internal pkg test; exit 1; }
	$(GO) vet ./...
	@before=$$(hack/checksum); $(MAKE) --no-print-directory generate; after=$$(hack/checksum); \
	  test "$$before" = "$$after" || { echo 'generated files were out of date; they are regenerated now:'; git --no-pager diff --stat -- api config docs; exit 1; }

.PHONY: fuzz
fuzz: ## Fuzz every fuzz test for FUZZTIME (10s) each.
	@for pkg in $$($(GO) list ./...); do \
	  for name in $$(grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' $$($(GO) list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' $$pkg) /dev/null 2>/dev/null | awk '{print $$2}'); do \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $${FUZZTIME:-10s} $$pkg; done; done

.PHONY: clean
clean: ## Remove what was built here; the control plane's cache stays.
	rm -rf bin dist
