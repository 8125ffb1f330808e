# Makefile of Candor. Start with make demo and make test.

GO      ?= go
export GO
PREFIX  ?= /usr/local
DESTDIR ?=
UNITDIR ?= $(PREFIX)/lib/systemd/system
VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null)
COMMIT  := $(shell git -c safe.directory='*' rev-parse HEAD 2>/dev/null)
DATE    := $(shell git -c safe.directory='*' show -s --format=%cI HEAD 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

.DEFAULT_GOAL := all
.PHONY: all build share demo docs-images install uninstall clean FORCE

all: build share ## build everything that make install copies

build: bin/candor ## build bin/candor

# go build decides whether the binary is up to date.
bin/candor: FORCE
	@$(GO) version 2>/dev/null | grep -Eq ' go(1\.(2[1-9]|[3-9][0-9])|[2-9])' || { echo "candor: Go 1.21 or newer is required, which downloads the version in go.mod; use https://go.dev/dl, or golang-go of Debian 13, bookworm-backports or Ubuntu 24.04"; exit 1; }
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/candor

# Generated again if bin/candor has changed: go build also touches a current binary.
share: build ## write the man pages and shell completions to bin/share
	@sum=$$(sha256sum bin/candor) && [ "$$sum" = "$$(cat bin/share/.built 2>/dev/null)" ] || { \
	rm -rf bin/share && CGO_ENABLED=0 $(GO) run -buildvcs=false -trimpath -tags generate -ldflags '$(LDFLAGS)' ./cmd/candor generate bin/share && \
	echo "$$sum" >bin/share/.built; }

KUBERNETES := v1.37.1

.PHONY: scheduler
scheduler: ## build bin/candor-scheduler (1 minute the first time)
	cd kube/scheduler && CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '-X k8s.io/component-base/version.gitVersion=$(KUBERNETES)+candor' -o ../../bin/candor-scheduler ./cmd/candor-scheduler

demo: build ## show programs that see their own CPUs, on this machine (root)
	scripts/demo.sh bin/candor

docs-images: build ## redraw the pictures of the docs
	bin/candor plan --machine 'pack:2 numa:1 l3:1 core:4 pu:2' -o svg docs/examples/map.jsonl >docs/images/map.svg

install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: export UNITDIR := $(UNITDIR)
install: ## copy what make has built: candor, its OCI runtime links, the systemd unit, man pages and shell completions
	@scripts/install.sh install

uninstall: export PREFIX := $(PREFIX)
uninstall: export DESTDIR := $(DESTDIR)
uninstall: export UNITDIR := $(UNITDIR)
uninstall: ## remove what make install has copied
	@scripts/install.sh uninstall

# --- release ---

REGISTRY ?= ghcr.io/candor-project
# The lists of modules have the hash of their generator, so the tools must not depend on their directory.
RELEASE_TOOLS = cd tools/release && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o ../../bin/tools/release/

.PHONY: release release-check release-tools push sign github-release chart-readme check-workflows test-release

release-check: ## check that VERSION can be released: make release-check VERSION=v0.2.0
	@scripts/release.sh --check '$(VERSION)'

release-tools: ## build the tools of tools/release
	@$(RELEASE_TOOLS) tool ./image ./access

release: release-check release-tools ## write binaries, packages, images and the chart of VERSION to dist: make release VERSION=v0.2.0
	@REGISTRY='$(REGISTRY)' KUBERNETES='$(KUBERNETES)' scripts/release.sh '$(VERSION)'

push: ## push the images and the chart in dist to the REGISTRY of make release
	@scripts/push.sh images chart

sign: ## sign the pushed images and the chart with cosign, without a key
	@scripts/push.sh sign

github-release: ## create the release on GitHub with the files in dist (gh)
	@scripts/push.sh github

chart-readme: release-tools ## write the README of the chart
	@bin/tools/release/helm-docs --chart-search-root deploy/helm --log-level warning

check-workflows: ## actionlint
	@$(RELEASE_TOOLS) github.com/rhysd/actionlint/cmd/actionlint
	@bin/tools/release/actionlint

# The packages are read with rpm and lintian, which no other test needs.
test-release: test-deps release-tools ## build a release twice, then test its files, packages, images, chart and docs/install.md (root; first build: 25 minutes)
	@command -v rpm >/dev/null && command -v lintian >/dev/null && command -v qemu-aarch64-static >/dev/null || \
		{ echo "apt-get install rpm lintian qemu-user-static"; apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends rpm lintian qemu-user-static >/dev/null; }
	@$(RELEASE_TOOLS) ./registry
	$(GO) test -C tools/release -count=1 ./image ./access
	$(GO) test -count=1 -tags generate -run 'TestGenerate|TestMarkdown' ./cmd/candor
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && export CANDOR_RELEASE="$$dir" && \
		$(GO) test -count=1 -timeout=60m -v -run TestRelease ./deploy && $(GO) test -count=1 -timeout=10m -v -run TestRelease ./e2e && \
		cd e2e/containerd && $(GO) test -count=1 -timeout=20m -v -run TestRelease .

clean: ## remove the built files
	rm -rf bin dist dist.new

# --- checks: format, vet, linters, language ---

.PHONY: check check-format check-vet check-words check-lint check-prose tools

CHECKS := check-format check-vet check-words check-generated check-lint check-prose check-workflows

check: $(CHECKS) ## the checks that need no root and run no test

# go vet and golangci-lint work on one module at a time.
MODULES := $(sort $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*')))

# Linters and generators, at the versions of tools/go.mod. The first build takes minutes and needs a C compiler.
tools:
	@cd tools && $(GO) build -o ../bin/tools/ tool ./prose

.PHONY: generate generate-bpf check-generated

CONTROLLER_GEN = bin/tools/controller-gen paths=./kube/v1alpha1 crd object

generate: tools ## deep copies and CRDs of kube/v1alpha1, by controller-gen
	@$(CONTROLLER_GEN) output:crd:dir=deploy/helm/candor/crds output:object:dir=kube/v1alpha1

# clang 14 and the headers of libbpf 1.1: apt-get install clang llvm libbpf-dev. Another clang makes other object files.
generate-bpf: tools ## compile the BPF programs (clang, libbpf-dev)
	$(GO) generate ./ledger/sample ./ledger/softirq ./e2e/daemontrace

check-generated: tools ## the generated files are current
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(CONTROLLER_GEN) output:dir="$$dir" && \
	for file in kube/v1alpha1/zz_generated.deepcopy.go deploy/helm/candor/crds/candor.dev_nodecpus.yaml deploy/helm/candor/crds/candor.dev_cpuprofiles.yaml; do \
	diff -u "$$file" "$$dir/$${file##*/}" || { echo "$$file is not current: run make generate"; exit 1; }; done

check-format: ## gofmt
	@unformatted=$$(gofmt -l $$(git -c safe.directory='*' ls-files '*.go')); test -z "$$unformatted" || { echo "run gofmt -w on: $$unformatted"; exit 1; }

check-vet: ## go vet, in all modules, and the packages with files for arm64
	@set -e; for module in $(MODULES); do echo "go vet: $$module"; (cd $$module && $(GO) vet ./...); done
	@echo "go vet: generate"; $(GO) vet -tags generate ./cmd/candor
	@echo "go vet: arm64"; GOARCH=arm64 $(GO) vet $$(git -c safe.directory='*' ls-files '*_arm64*.go' | sed 's:[^/]*$$::; s:^:./:' | sort -u)

check-lint: tools ## golangci-lint, in all modules; .golangci.yml configures it
	@set -e; for module in $(MODULES); do echo "golangci-lint: $$module"; (cd $$module && $(CURDIR)/bin/tools/golangci-lint run --allow-serial-runners --timeout 15m); done

check-words: ## count unclear words and long sentences in comments and Markdown
	@$(GO) run -C tools ./prose "$(CURDIR)"

check-prose: tools ## Vale and tools/prose: the language of comments and Markdown; tools/vale/styles has the rules
	@failed=; bin/tools/vale --output=line $$(git -c safe.directory='*' ls-files '*.go' '*.md' ':!*_test.go' ':!*/testdata/*') || failed=1; \
	bin/tools/prose . || failed=1; test -z "$$failed"

# --- tests: test, test-guest (scripts/test-deps.sh installs what they need) ---

.PHONY: test test-deps test-short test-go test-race test-guest test-guest-all test-giveback test-kubelet test-engines fuzz bench

FUZZTIME   ?= 1s
BENCHCOUNT ?= 10
# The tests of these packages use cgroups or daemons of this machine, or measure time: they run alone.
SERIAL     := ./bandwidth/record ./cgroup ./cmd/candor/internal/audit ./cmd/candor/internal/load ./cmd/candor/internal/memtrim \
	./cmd/candor/internal/setup ./cmd/candor/internal/top ./e2e ./e2e/hostile ./e2e/twins ./engine/nri ./experiment ./experiment/apps ./experiment/probe \
	./host ./host/launch ./internal/procfs ./ledger/softirq ./metrics ./quota ./view
# Packages with goroutines.
RACE       := ./bandwidth/... ./cgroup ./cmd/... ./engine/nri ./experiment ./experiment/probe ./host ./internal/... ./kube/apiserver \
	./kube/cluster ./kube/publish ./metrics ./quota ./simulate ./trace ./view
# packages lists packages as ./DIR. make stops if a package does not exist.
packages   = $(shell $(GO) list -f './{{slice .ImportPath 33}}' $(1))$(if $(filter-out 0,$(.SHELLSTATUS)),$(error cannot list the packages $(1)))
PARALLEL   = $(filter-out $(SERIAL),$(call packages,./...))
RACE_LIST  = $(call packages,$(RACE))

# scripts/go-test.sh writes the tests that passed only the second time to this file.
export CANDOR_REPEATED ?= $(CURDIR)/bin/repeated

test: test-deps ## everything, on this machine and in guests (root)
	@mkdir -p bin && : >$(CANDOR_REPEATED)
	$(MAKE) check
	$(MAKE) test-go
	$(MAKE) test-race
	$(MAKE) fuzz
	$(MAKE) test-guest
	@if [ -s $(CANDOR_REPEATED) ]; then echo "failed once, then passed:"; cat $(CANDOR_REPEATED); else echo "no test was repeated"; fi

test-deps: ## installs once what the tests need from the distribution
	@scripts/test-deps.sh

test-short: ## the tests that need neither root nor much time: less than 3 minutes
	$(GO) test -short ./...
	$(GO) test -C tools ./prose

# Nothing from the cache: the kernel is part of what is tested.
test-go: ## go test on this machine
	scripts/go-test.sh -count=1 -timeout=30m $(PARALLEL)
	scripts/go-test.sh -count=1 -p 1 -timeout=30m $(SERIAL)
	cd e2e/containerd && ../../scripts/go-test.sh -count=1 -timeout=30m ./...

# By default, a process under the race detector waits a second at its exit for reports of other threads.
test-race: export GORACE += atexit_sleep_ms=10
# Here the tests of cgroup and host keep the files of groups open, as in a daemon.
test-race: export CANDOR_KEEP_OPEN = 1
test-race: ## test the packages with goroutines under the race detector
	scripts/go-test.sh -count=1 -race -short -timeout=20m $(filter-out $(SERIAL),$(RACE_LIST))
	scripts/go-test.sh -count=1 -p 1 -race -short -timeout=20m $(filter $(SERIAL),$(RACE_LIST))

fuzz: ## every fuzz target, for FUZZTIME each
	@scripts/fuzz.sh $(FUZZTIME)

test-guest: test-deps ## the kernel's tests again in guests: 32 CPUs, cgroup v2 and v1, systemd
	CANDOR_GUEST=1 scripts/go-test.sh --subtests -count=1 -timeout=60m ./e2e/guest/...

test-guest-all: test-deps ## test every package in every guest, before a release (over an hour)
	CANDOR_GUEST=1 CANDOR_GUEST_PACKAGES="topology view cgroup host cmd/candor/internal/audit cmd/candor/internal/setup e2e" $(GO) test -count=1 -timeout=3h ./e2e/guest

test-giveback: export CANDOR_GIVEBACK_KILLS ?= 3
test-giveback: test-deps ## give back 20 containers of containerd and of Docker in guests with 32 CPUs, before a release (hours; with CANDOR_GIVEBACK_KILLS=1: about 20 minutes for each of four guests)
	CANDOR_GUEST=1 CANDOR_GUEST_GIVEBACK=1 $(GO) test -count=1 -timeout=14h -v -run '^TestGiveBack$$' ./e2e/guest

test-kubelet: test-deps scheduler ## test candor nri with a kubelet, an API server and candor-scheduler (first build: 9 minutes)
	kubelet=$$(scripts/kubelet.sh) && apiserver=$$(scripts/kubernetes.sh kube-apiserver) && etcd=$$(scripts/kubernetes.sh etcd) && \
	cd e2e/containerd && CANDOR_KUBELET=$$kubelet CANDOR_APISERVER=$$apiserver CANDOR_ETCD=$$etcd CANDOR_SCHEDULER=$(CURDIR)/bin/candor-scheduler $(GO) test -count=1 -run TestKubelet -v .

test-engines: test-deps ## test with CRI-O, a new Docker with compose, and nerdctl 2 (long first build)
	engines=$$(scripts/engines.sh) && export PATH="$$engines:$$PATH" DOCKER_CONFIG="$$engines/config" && \
	$(GO) test -count=1 -timeout 30m -run 'TestDocker|TestChargeDocker' -v ./e2e && \
	cd e2e/containerd && $(GO) test -count=1 -timeout 60m -run 'TestCrio|TestNerdctl' -v .

.PHONY: test-hostile

test-hostile: test-deps ## run the heavy attacks of e2e/hostile and e2e/containerd (root, under 10 minutes)
	CANDOR_HOSTILE=1 $(GO) test -count=1 -timeout 10m ./e2e/hostile
	cd e2e/containerd && CANDOR_HOSTILE=1 $(GO) test -count=1 -timeout 10m -run TestHostile .

.PHONY: e2e-kubernetes

e2e-kubernetes: ## test CRDs, policies, reports, helm upgrade and candor-scheduler with kube-apiserver and etcd (first build: 6 minutes, 3 GB of build cache)
	cd kube/scheduler && $(GO) vet ./...
	apiserver=$$(scripts/kubernetes.sh kube-apiserver) && etcd=$$(scripts/kubernetes.sh etcd) && \
		export CANDOR_APISERVER=$$apiserver CANDOR_ETCD=$$etcd && $(GO) test -count=1 -timeout 20m -v ./e2e/kubernetes && \
		cd kube/scheduler && $(GO) test -count=1 -timeout 20m -v ./...

.PHONY: cost-kubernetes

NODES  ?= 1000,5000
PODS   ?= 2000
ROUNDS ?= 7

cost-kubernetes: ## measure candor-scheduler with and without the plugin: NODES=1000,5000 PODS=2000 ROUNDS=7 (idle machine)
	apiserver=$$(scripts/kubernetes.sh kube-apiserver) && etcd=$$(scripts/kubernetes.sh etcd) && cd kube/scheduler && \
		CANDOR_APISERVER=$$apiserver CANDOR_ETCD=$$etcd CANDOR_COST_NODES=$(NODES) CANDOR_COST_PODS=$(PODS) CANDOR_COST_ROUNDS=$(ROUNDS) \
		$(GO) test -count=1 -timeout 4h -run TestCost -v .

bench: ## run the benchmarks of the allocator, then compare with the kubelet in BENCHCOUNT rounds
	$(GO) test -run '^$$' -bench . -benchmem ./hybrid
	cd bench && $(GO) test -bench . -benchtime 200ms -count $(BENCHCOUNT)

# --- experiments ---

.PHONY: isolate

ISOLATE ?= -n 10

isolate: build ## measure docs/benchmarks/isolate.md: 50 minutes on two idle CPUs, 40 with ISOLATE="-n 8" (root, stress-ng, iperf3)
	bin/candor isolate $(ISOLATE) --out isolation -o markdown

.PHONY: topology-gain

topology-gain: build ## measure the gain of a topology policy for nginx on several NUMA nodes: 10 minutes (root, nginx, wrk)
	scripts/topology-gain.sh

# --- simulation ---

.PHONY: bench-sim

bench-sim: build ## measure docs/benchmarks/simulate.md: decisions, the paper's sweep, a month (BENCHSIM="sweep month" selects some)
	@scripts/bench-sim.sh $(BENCHSIM)

# --- compatibility ---

.PHONY: matrix

MATRIX_DIR ?= .matrix

# A new call measures the cells without a result. A named cell is measured again.
matrix: test-deps ## measure docs/compatibility.md: about a minute for each cell (root; CELLS="host guest-6.12-v2/runc" selects cells)
	@$(GO) run ./e2e/compatibility/measure -dir '$(MATRIX_DIR)' $(CELLS)

# --- ledger ---

.PHONY: ledger ledger-tables ledger-kernel

LEDGER_DIR ?= $(CURDIR)/.ledger
LEDGER_TEST = cd e2e/containerd && CANDOR_LEDGER_DIR=$(abspath $(LEDGER_DIR)) CANDOR_LEDGER_COLUMNS="$(LEDGER)" CANDOR_LEDGER_RUNS=$(RUNS) \
	CANDOR_LEDGER_WORK=$(WORK) $(GO) test -count=1 -run '^TestLedgerTables$$' .

# A new call measures the cells that LEDGER_DIR lacks.
ledger: test-deps $(if $(filter patch none_guest,$(LEDGER)),ledger-kernel) ## measure docs/benchmarks/ledger.md into LEDGER_DIR: hours (root, two idle CPUs; RUNS=1 WORK=2 for a trial run, LEDGER="none charge" selects columns)
	@$(LEDGER_TEST) -v -timeout 0
	@cat $(LEDGER_DIR)/tables.md

ledger-kernel: ## build the kernel of the column patch of make ledger (amd64, root or sudo for packages)
	@scripts/ledger-kernel.sh

ledger-tables: ## print the tables of the cells that make ledger has measured so far
	@log=$$(export CANDOR_LEDGER_SUMMARY=1; $(LEDGER_TEST)) || { echo "$$log"; exit 1; }
	@cat $(LEDGER_DIR)/tables.md

# --- timescales ---

.PHONY: timescales

timescales: ## measure docs/benchmarks/advise.md: 35 minutes with ROUNDS=9; ROUNDS=1 for a trial run (root, two idle CPUs)
	@ROUNDS=$(or $(ROUNDS),9) scripts/timescales.sh

# --- measurements ---

.PHONY: wysiwyg

wysiwyg: build ## measure docs/benchmarks/wysiwyg.md (root, idle machine; RUNS=3 WORK=5 for a trial run, WYSIWYG="stream joined" selects some)
	@scripts/wysiwyg.sh $(WYSIWYG)

.PHONY: cookbook

cookbook: build ## measure the programs of docs/cookbook (root, idle machine; COOKBOOK="nginx redis" selects some)
	@scripts/cookbook.sh $(COOKBOOK)
