# Candor. The two commands for a fresh machine: make demo, make test.

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION)

.DEFAULT_GOAL := build
.PHONY: build demo docs-images install clean FORCE

build: bin/candor ## builds bin/candor

# go build knows best whether there is anything to do.
bin/candor: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/candor

demo: build ## shows the main job on this machine (needs root)
	scripts/demo.sh bin/candor

docs-images: build ## draws the pictures of the docs anew
	bin/candor plan --machine 'pack:2 numa:1 l3:1 core:4 pu:2' -o svg docs/examples/map.jsonl >docs/images/map.svg

install: build ## installs candor and its shell completions
	install -D -m 755 bin/candor $(DESTDIR)$(PREFIX)/bin/candor
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	bin/candor completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/candor
	bin/candor completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_candor
	bin/candor completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/candor.fish

clean: ## removes what was built
	rm -rf bin

# --- tests: test, test-guest (scripts/test-deps.sh installs what they need) ---

