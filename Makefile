# Targets for people and CI alike; `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOLS := hack/tools/go.mod
LINT := hack/tools/lint/go.mod
MODULE := github.com/egress-proxies/egress-proxies-operator
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# Of the commit, not of now: the same sources give the same binary.
DATE ?= $(shell TZ=UTC git log -1 --date=iso-strict-local --format=%cd 2>/dev/null | sed s/+00:00/Z/)
LDFLAGS := -s -w $(foreach v,version=$(VERSION) revision=$(REVISION) date=$(DATE),-X $(MODULE)/internal/version.$(v))
STAMP = -version '$(VERSION)' -revision '$(REVISION)' -date '$(DATE)'

# Tests run with the race detector, which needs cgo; what is shipped is static.
TESTFLAGS ?= -race
PKG ?= ./...

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build operator and egress-proxy into bin/.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/operator ./cmd/egress-proxy

.PHONY: image
image: ## Write the operator's image to dist/operator-image.tar, without a container engine; ARCH=arm64 for another platform.
	$(GO) run ./hack/image operator $(STAMP) $(if $(ARCH),-arch $(ARCH)) -o dist/operator-image.tar

.PHONY: image-all
image-all: ## Write the operator's image for amd64 and arm64 to dist/operator-image-all.tar, an OCI image layout.
	$(GO) run ./hack/image operator-index $(STAMP) -o dist/operator-image-all.tar

.PHONY: push
push: ## Push ARCHIVE (of make image-all) to IMAGE:VERSION, with its digest.
	@hack/push '$(or $(ARCHIVE),dist/operator-image-all.tar)' '$(IMAGE):$(VERSION)'

.PHONY: reproducible
reproducible: ## Make the images twice in different folders and compare them; COLD=1 compiles everything anew the second time.
	COLD=$(COLD) hack/reproducible '$(VERSION)' '$(REVISION)' '$(DATE)'

# The programs of the image with what describes them, for each architecture.
PROGRAMS = for arch in amd64 arm64; do $(GO) run ./hack/image programs $(STAMP) -arch $$arch -o dist/linux_$$arch || exit; done
SUPPLY := $(GO) -C hack/supply run .

.PHONY: sbom
sbom: ## Write the bills of materials to dist/linux_<arch>/sbom.cdx.json, in CycloneDX, and check them against the programs.
	$(PROGRAMS)
	for arch in amd64 arm64; do at=$(CURDIR)/dist/linux_$$arch; $(SUPPLY) verify -sbom $$at/sbom.cdx.json $$at/operator $$at/egress-proxy; done

.PHONY: licences
licences: ## Print the licence of each module in the programs; fail when one does not fit Apache-2.0.
	$(PROGRAMS)
	for arch in amd64 arm64; do $(SUPPLY) licences $(CURDIR)/dist/linux_$$arch/operator $(CURDIR)/dist/linux_$$arch/egress-proxy; done

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the code calls; REQUIRED=1 fails when the database cannot be reached.
	$(SUPPLY) vulncheck -root $(CURDIR) $(if $(REQUIRED),-required) ./cmd/... ./pkg/... ./api/...

.PHONY: supply
supply: ## All about the supply chain: images twice, bills of materials, licences, vulnerabilities, and the tests of the tools for it.
	$(GO) -C hack/supply vet ./...
	$(GO) -C hack/supply test ./...
	$(MAKE) --no-print-directory reproducible sbom licences vulncheck

.PHONY: release
release: ## Write a release of VERSION, the tag of this commit, to dist/release; SNAPSHOT=1 for a look at one.
	SNAPSHOT=$(SNAPSHOT) IMAGE='$(IMAGE)' hack/release '$(if $(SNAPSHOT),v0.0.0-snapshot,$(VERSION))' '$(REVISION)' '$(DATE)'

.PHONY: controlplane
controlplane: ## Prepare etcd and kube-apiserver for tests and demo (once; about five minutes when built).
	@$(GO) run ./hack/controlplane >/dev/null

.PHONY: test
test: controlplane ## Run all tests with the race detector, against a real control plane, then test-crash and test-scale.
	@# Compiled before, so that its minutes do not count as those of a test.
	$(GO) tool -modfile=hack/tools/helm/go.mod -n helm >/dev/null
	$(GO) run ./hack/controlplane -kubectl >/dev/null
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

E2E := dist/e2e-kubernetes

.PHONY: e2e-kubernetes
e2e-kubernetes: ## Prove the provider kubernetes: on the cluster of KUBECONFIG, else on a real one made for it (Linux, root, see hack/cluster/install).
ifdef KUBECONFIG
	test/e2e/kubernetes/run
else
	$(GO) run ./hack/cluster -check
	@# Compiled before, for the cluster's network leads nowhere.
	$(GO) test -c -tags e2e -o /dev/null ./internal/provider/kubernetes ./test/e2e/kubernetes
	$(GO) tool -modfile=$(TOOLS) kustomize version >/dev/null
	for image in squid target; do $(GO) run ./hack/image $$image -o $(E2E)/$$image.tar; done
	$(GO) run ./hack/image operator -version e2e -o $(E2E)/operator.tar
	E2E_OPERATOR_IMAGE=egress-proxies-operator:e2e E2E_SQUID_IMAGE=egress-proxies-squid:e2e E2E_TARGET_IMAGE=egress-proxies-target:e2e E2E_DIRECT=1 \
	  $(GO) run ./hack/cluster -logs $(E2E)/logs $(patsubst %,-image $(E2E)/%.tar,operator squid target) -- test/e2e/kubernetes/run
endif

.PHONY: e2e-kvm
e2e-kvm: ## Prove the provider kvm: on a real libvirt made for it, with guests that boot (Linux, root, see hack/hypervisor/install).
	$(GO) run ./hack/hypervisor -check
	@# Compiled before, for the hypervisor's network leads nowhere.
	$(GO) test -c -tags e2e -o /dev/null ./internal/provider/kvm ./test/crash ./test/e2e/kvm
	CGO_ENABLED=0 $(GO) build -trimpath -o dist/e2e-kvm/operator ./cmd/operator
	image=$$($(GO) run ./hack/hypervisor/image) && assets=$$($(GO) run ./hack/controlplane) && \
	  E2E_OPERATOR=$(CURDIR)/dist/e2e-kvm/operator KUBEBUILDER_ASSETS=$$assets \
	  $(GO) run ./hack/hypervisor -logs dist/e2e-kvm/logs -hosts 2 -image "$$image" -- test/e2e/kvm/run

.PHONY: kvm-ssh-secret
kvm-ssh-secret: ## Put KEY=… and KNOWN_HOSTS=…, two files, into the Secret kvm-ssh of NAMESPACE (egress-proxies-system), for the provider kvm.
	@check() { \
	  test -n "$$2" || { echo "kvm-ssh-secret: $$1 names no file; usage: make kvm-ssh-secret KEY=FILE KNOWN_HOSTS=FILE [NAMESPACE=…]"; exit 2; }; \
	  test -f "$$2" || { echo "kvm-ssh-secret: $$1: no file $$2"; exit 2; }; \
	  test -r "$$2" || { echo "kvm-ssh-secret: $$1: $$2 cannot be read"; exit 2; }; \
	  test -s "$$2" || { echo "kvm-ssh-secret: $$1: $$2 is empty"; exit 2; }; \
	  if test $$1 = KEY; then grep -q -e '-----BEGIN .*PRIVATE KEY-----' "$$2" || { echo "kvm-ssh-secret: KEY: $$2 is no private key"; exit 2; }; \
	  elif grep -q -e '-----BEGIN ' "$$2"; then echo "kvm-ssh-secret: $$1: $$2 is no known_hosts file"; exit 2; fi; \
	} >&2; check KEY '$(KEY)'; check KNOWN_HOSTS '$(KNOWN_HOSTS)'
	@# Applied on the server's side, so that no copy of the key lands in an annotation.
	kubectl create secret generic kvm-ssh --namespace='$(or $(NAMESPACE),egress-proxies-system)' --from-file=key='$(KEY)' \
	  --from-file=known_hosts='$(KNOWN_HOSTS)' --dry-run=client -o yaml | kubectl apply --server-side --force-conflicts -f -

DIST := dist
HELM := $(GO) tool -modfile=hack/tools/helm/go.mod helm

.PHONY: charts
charts: ## Lint the Helm charts and package them into dist/, as VERSION (a semantic version; 0.0.0 when it is none).
	@version=$$(echo '$(VERSION)' | grep -xE 'v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?' || echo 0.0.0); mkdir -p '$(DIST)'; \
	  for chart in charts/*; do $(HELM) lint --strict $$chart; \
	    $(HELM) package $$chart --destination '$(DIST)' --version "$${version#v}" --app-version "$$version"; done

.PHONY: token-secret
token-secret: ## Make a token of the discovery API and put it into the Secret egress-proxies-discovery of NAMESPACE (egress-proxies-system); never over another.
	@# Create fails where the Secret exists. The token is in no argument, no file and no output.
	@token() { head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }; \
	  token | kubectl create secret generic egress-proxies-discovery --namespace='$(or $(NAMESPACE),egress-proxies-system)' --from-file=token=/dev/stdin

.PHONY: demo
demo: build controlplane ## Show the whole system on this machine; DEMO=once ends after the proof.
	@# Not through go run, which ends with an error when it is interrupted, however orderly the demo ends.
	$(GO) build -o bin/demo ./hack/demo
	@DEMO=$(DEMO) DEMO_BIN=$(CURDIR)/bin exec bin/demo

.PHONY: demo-gcp
demo-gcp: build controlplane ## Show the whole system with VMs of an emulated Compute Engine; DEMO=once ends after the proof.
	$(GO) build -o bin/demo ./hack/demo
	@DEMO=$(DEMO) DEMO_BIN=$(CURDIR)/bin exec bin/demo gcp

.PHONY: monitoring
monitoring: controlplane ## Prove dashboard, alerts and their pages on a real run with a real Prometheus (see hack/install).
	$(GO) run ./hack/monitoring
	$(GO) -C hack/monitoring/plot test ./...

.PHONY: monitoring-picture
monitoring-picture: controlplane ## The same, and draw docs/images/dashboard.png.
	$(GO) run ./hack/monitoring -picture docs/images/dashboard.png

.PHONY: test-docs
test-docs: build controlplane ## Follow the quickstart and the tutorial word for word (kubectl is built; for curl, jq and Scrapy see hack/install).
	WALK=1 $(GO) test -count=1 -v -timeout 20m ./test/docs/walk

.PHONY: bench
bench: ## Run the benchmarks; prints `bench <name> <value>`.
	$(GO) run ./hack/bench

.PHONY: bench-fleet
bench-fleet: controlplane ## Measure the operator with FLEET (10000) Proxies within its memory limit; root on Linux for the limit, 20 minutes.
	$(GO) run ./hack/bench/fleet -n $(or $(FLEET),10000)

.PHONY: lint
lint: ## Run the linters of .golangci.yml, and that of .github/workflows.
	$(GO) tool -modfile=$(LINT) golangci-lint run $(PKG)
	cd hack/supply && $(GO) tool -modfile=../tools/lint/go.mod golangci-lint run
	$(GO) tool -modfile=hack/tools/actionlint/go.mod actionlint

.PHONY: generate
generate: ## Generate deep copies, CRDs, RBAC and the references of objects, flags, metrics and configuration.
	$(GO) tool -modfile=$(TOOLS) controller-gen object crd paths=./api/... output:crd:dir=config/crd
	$(GO) tool -modfile=$(TOOLS) controller-gen rbac:roleName=egress-proxies-operator paths=./cmd/operator paths=./internal/controller/... paths=./internal/fleet \
	  paths=./internal/gc paths=./internal/leaderlabel paths=./internal/providerhealth output:rbac:dir=config/rbac
	@# Apart, because whoever runs no proxies as Pods has no need for it.
	$(GO) tool -modfile=$(TOOLS) controller-gen rbac:roleName=egress-proxies-operator-pods paths=./internal/provider/kubernetes \
	  output:rbac:dir=config/components/provider-kubernetes
	@# Helm reads no files beside a chart.
	rm -rf charts/*/files && mkdir -p charts/egress-proxies-crds/files charts/egress-proxies-operator/files/rules
	cp config/crd/crawl.example.com_*.yaml charts/egress-proxies-crds/files/
	cp config/rbac/role.yaml config/monitoring/dashboard/egress-proxies.json charts/egress-proxies-operator/files/
	cp config/components/provider-kubernetes/role.yaml charts/egress-proxies-operator/files/role-pods.yaml
	cp $$(grep -l '^kind: PrometheusRule$$' config/components/monitoring/*.yaml) charts/egress-proxies-operator/files/rules/
	$(GO) test ./cmd/operator -run TestFlagsReference -update
	$(GO) test ./internal/metrics -run TestMetricsReference -update
	$(GO) run ./hack/reference
	KUBEBUILDER_ASSETS=$$($(GO) run ./hack/controlplane) $(GO) test ./internal/controller/proxy -run TestStateTableReference -update

.PHONY: verify
verify: ## Check that generated files, modules and formatting are up to date.
	$(GO) mod verify
	$(GO) mod tidy -diff
	@test -z "$$(gofmt -l api cmd docs hack internal pkg test 2>/dev/null)" || { echo 'not formatted:'; gofmt -l api cmd docs hack internal pkg test; exit 1; }
	$(GO) vet ./...
	@before=$$(hack/checksum); $(MAKE) --no-print-directory generate; after=$$(hack/checksum); \
	  test "$$before" = "$$after" || { echo 'generated files were out of date; they are regenerated now:'; git --no-pager diff --stat -- api charts config docs; exit 1; }

.PHONY: fuzz
fuzz: ## Fuzz every fuzz test for FUZZTIME (10s) each.
	@for pkg in $$($(GO) list ./...); do \
	  for name in $$(grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' $$($(GO) list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' $$pkg) /dev/null 2>/dev/null | awk '{print $$2}'); do \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $${FUZZTIME:-10s} $$pkg; done; done

.PHONY: clean
clean: ## Remove what was built here; the control plane's cache stays.
	rm -rf bin dist
