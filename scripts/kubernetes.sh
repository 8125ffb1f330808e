#!/usr/bin/env bash
# Builds a program of Kubernetes for the tests into the tests' cache, once, and prints its path: scripts/kubernetes.sh kube-apiserver
# (6 minutes on two idle cores) or kubelet (2 minutes). The build needs 3 GB of Go's build cache, so CI does not run it.
# scripts/kubernetes.sh etcd unpacks the distribution's etcd and installs nothing. scripts/kubernetes.sh kwok builds kwok, which plays
# the kubelets of nodes.
set -euo pipefail

version=v1.37.1
kwok_version=v0.8.0
cache=${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}
name=${1:-kube-apiserver}
case $name in
kube-apiserver | kubelet) program=$cache/$name-$version ;;
etcd) program=$cache/etcd ;;
kwok) program=$cache/kwok-$kwok_version ;;
*) echo "kubernetes.sh: $name: use kube-apiserver, kubelet, etcd or kwok" >&2; exit 2 ;;
esac

# build compiles the program in a separate module.
build() {
	export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
	go mod init candor.test/kubernetes 2>/dev/null
	go mod edit -require "k8s.io/kubernetes@$version"
	# Kubernetes replaces these modules with its own directories; each release also publishes them as modules.
	go mod download "k8s.io/kubernetes@$version"
	local gomod module at=k8s.io/component-base/version
	gomod=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
	for module in $(sed -n 's|.*\(k8s.io/[^ ]*\) => ./staging/.*|\1|p' "$gomod"); do
		go mod edit -replace "$module=$module@v0.${version#v1.}"
	done
	go build -p "${CANDOR_BUILDS:-1}" -ldflags "-X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=$(echo "$version" | cut -d. -f2)" \
		-o "$name" "k8s.io/kubernetes/cmd/$name" >&2
}

unpack() {
	apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root download etcd-server >&2
	dpkg-deb --fsys-tarfile etcd-server_*.deb | tar -x --no-same-owner ./usr/bin/etcd
	mv usr/bin/etcd etcd
}

mkdir -p "$cache"
if [ ! -x "$program" ] && [ "$name" != etcd ]; then
	exec 9>"$cache/kubernetes.lock" # one at a time: linking takes gigabytes
	flock 9
fi
if [ ! -x "$program" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if [ "$name" = etcd ]; then
		unpack
	elif [ "$name" = kwok ]; then
		CGO_ENABLED=0 GOFLAGS='' GOBIN="$work" go install "sigs.k8s.io/kwok/cmd/kwok@$kwok_version" >&2
	else
		echo "building $name $version into $program" >&2
		build
	fi
	mv "$name" "$program"
fi
echo "$program"
