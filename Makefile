# Every target covers all modules: the product in ., and test, which holds what needs a control plane.
MODULES := . test
GO      ?= go
GOLANGCI_LINT = $(GO) tool -modfile=$(CURDIR)/tools/golangci-lint/go.mod golangci-lint
# Where the rig keeps what it builds.
CACHE   := $(or $(PACELINE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/paceline)
CHART   := charts/paceline
# Scenarios wait for states most of the time, so more of them run at once than there are cores.
PARALLEL ?= 6
# The Kubernetes releases that Paceline supports; each has a build module in test/rig/build.
VERSIONS ?= 1.36.3 1.37.2
# Scenarios wait for states, not for seconds; this only ends a run that hangs.
TIMEOUT ?= 60m

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binaries into bin/ and compile everything else
	$(GO) build -o bin/ ./cmd/...
	$(GO) build ./...
	cd test && $(GO) build ./...

.PHONY: unit
unit: ## Test what needs no control plane, with the race detector
	$(GO) test -race ./...

.PHONY: test
test: unit ## Test everything; builds and starts a real control plane
	cd test && $(GO) test -timeout $(TIMEOUT) -parallel $(PARALLEL) ./...

.PHONY: test-versions
test-versions: ## Run the scenarios on each Kubernetes release that is supported
	@set -e; for version in $(VERSIONS); do \
	  echo "Kubernetes $$version"; \
	  (cd test && PACELINE_KUBERNETES=$$version $(GO) test -timeout $(TIMEOUT) -parallel $(PARALLEL) ./e2e ./races); \
	done

.PHONY: model
model: ## Test the model with twenty times the steps
	cd test && $(GO) test -count=1 -timeout $(TIMEOUT) ./model -run TestModel -v -rapid.checks=20000 -rapid.shrinktime=60s

.PHONY: lint
lint: lint-go lint-chart ## Check formatting, vet, linters and the chart

.PHONY: lint-go
lint-go:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	@set -e; for module in $(MODULES); do \
	  echo "vet and lint $$module"; \
	  (cd $$module && $(GO) vet ./... && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); \
	done

.PHONY: lint-chart
lint-chart:
	cd test && $(GO) run ./rig build --helm 4
	@set -e; helm=$$(ls -t $(CACHE)/bin/helm4-* | head -n 1); \
	  $$helm lint --strict $(CHART); \
	  $$helm lint --strict $(CHART) --set controller.enabled=false --set webhook.url=https://192.0.2.1:9443; \
	  $$helm lint --strict $(CHART) --set config.certs.mode=cert-manager --set certManager.issuerRef.name=issuer

.PHONY: demo
demo: ## Roll twelve nodes with and without a budget on a real control plane
	cd test && $(GO) run ./demo

.PHONY: fixtures
fixtures: ## Record webhook/testdata anew from a real API server
	cd test && $(GO) run ./fixtures

.PHONY: mutants
mutants: ## Break the code in known ways and check that a test notices each
	cd test && $(GO) run ./mutants

.PHONY: bench
bench: ## Run the benchmarks
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) test -run '^$$' -bench . -benchmem ./...); done

.PHONY: docs
docs: ## Write the generated parts of docs/ anew
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) generate ./...); done

.PHONY: cover
cover: ## Write the coverage of make unit to build/cover.html
	mkdir -p build
	$(GO) test -coverprofile=build/cover.out ./...
	$(GO) tool cover -html=build/cover.out -o build/cover.html
	$(GO) tool cover -func=build/cover.out | tail -n 1

.PHONY: clean
clean: ## Remove what was built here; the rig's cache stays
	rm -rf bin build
