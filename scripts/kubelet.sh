#!/usr/bin/env bash
# Builds a kubelet for the test that runs with a real one, once, into the tests' cache, and writes where it is.
# It takes 2 minutes and 1 GB of Go's build cache, which is why CI does without.
set -euo pipefail

version=v1.37.1
cache=${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}
kubelet=$cache/kubelet-$version

if [ ! -x "$kubelet" ]; then
	echo "building kubelet $version into $kubelet" >&2
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
	go mod init candor.test/kubelet 2>/dev/null
	go mod edit -require "k8s.io/kubernetes@$version"
	# What Kubernetes replaces by its own folders is published as modules of the same release.
	go mod download "k8s.io/kubernetes@$version"
	gomod=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
	for module in $(sed -n 's|.*\(k8s.io/[^ ]*\) => ./staging/.*|\1|p' "$gomod"); do
		go mod edit -replace "$module=$module@v0.${version#v1.}"
	done
	at=k8s.io/component-base/version
	go build -ldflags "-X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=$(echo "$version" | cut -d. -f2)" \
		-o kubelet k8s.io/kubernetes/cmd/kubelet >&2
	mkdir -p "$cache"
	mv kubelet "$kubelet"
fi
echo "$kubelet"
