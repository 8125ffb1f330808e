#!/usr/bin/env bash
# Builds container engines from their Go modules into a cache, once, and prints the cache directory. Distributions lack these
# versions: CRI-O, Docker (engine, command line, compose), runc, nerdctl, containerd 1.7 and the engine of Docker 26.1.
# containerd 2 is the build of the other tests. The first build takes long, so CI does not run it. Arguments select programs, such as containerd-1.7.
set -euo pipefail

crio=v1.34.0
runc=v1.5.2
dockerd=v2.0.0-beta.24
docker=v29.9.3+incompatible
compose=v5.5.1
nerdctl=v2.2.2
containerd17=v1.7.35
docker26=v26.1.5+incompatible
only=" $* "

cache=${CANDOR_ENGINES:-${XDG_CACHE_HOME:-$HOME/.cache}/candor/engines}
containerd=${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}/containerd
export CGO_ENABLED=0 GOWORK=off GOFLAGS="${GOFLAGS:-} -mod=mod"

# build PROGRAM VERSION FUNCTION runs the function in a temporary directory and moves the program to the cache, unless
# the cache has this version.
build() {
	[ "$only" = "  " ] || [[ $only == *" $1 "* ]] || return 0
	[ "$(cat "$cache/$1.version" 2>/dev/null)" != "$2" ] || return 0
	echo "building $1 $2 into $cache" >&2
	mkdir "$work/$1"
	(cd "$work/$1" && "$3" "$2" >&2)
	rm -rf "${cache:?}/$1"
	mv "$work/$1/$1" "$cache/"
	echo "$2" >"$cache/$1.version"
}

# source_of MODULE@VERSION prints the directory with the files of a module.
source_of() {
	local told
	told=$(go mod download -json "$1") || { echo "$told" >&2; return 1; }
	echo "$told" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'
}

# copy MODULE@VERSION copies the files of a module to a writable directory "source".
copy() {
	cp -r "$(source_of "$1")" source
	chmod -R u+w source
}

# needs MODULE VERSION creates a module that requires another module, with its checksums.
needs() {
	local source
	source=$(source_of "$1@$2")
	go mod init candor.test/engine
	go mod edit -require "$1@$2"
	install -m 644 "$source/go.sum" go.sum
}

# CRI-O without the storage drivers and signatures that need C libraries.
build_crio() {
	needs github.com/cri-o/cri-o "$1"
	go build -tags "containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs exclude_graphdriver_devicemapper" \
		-o crio github.com/cri-o/cri-o/cmd/crio
}

# pinns is CRI-O's program that creates namespaces.
build_pinns() { gcc -std=c99 -Os -static -o pinns "$(source_of "github.com/cri-o/cri-o@$1")"/pinns/src/*.c; }

# Docker's engine requires a runc with time namespaces.
build_runc() {
	pkg-config --exists libseccomp || apt-get -qq -y install --no-install-recommends libseccomp-dev pkg-config
	needs github.com/opencontainers/runc "$1"
	CGO_ENABLED=1 go build -tags "netgo osusergo seccomp" -ldflags "-X main.version=${1#v} -linkmode external -extldflags -static" -o runc github.com/opencontainers/runc
}

build_dockerd() {
	needs github.com/moby/moby/v2 "$1"
	go build -tags "exclude_graphdriver_btrfs no_systemd" -ldflags "-X github.com/moby/moby/v2/dockerversion.Version=$1" \
		-o dockerd github.com/moby/moby/v2/cmd/dockerd
}

# In the source of Docker's command line, go.mod is named vendor.mod. The build uses the engine's version of swarmkit, because not every
# module proxy has the version that the command line requires.
build_docker() {
	local swarmkit=github.com/moby/swarmkit/v2
	copy "github.com/docker/cli@$1"
	mv source/vendor.mod source/go.mod
	cat source/vendor.sum "$(source_of "github.com/moby/moby/v2@$dockerd")/go.sum" >source/go.sum
	(cd source && go mod edit -replace "$swarmkit=$swarmkit@v2.1.3-0.20260828175525-ad0357aedfca" && go build -ldflags "-X github.com/docker/cli/cli/version.Version=${1%+*}" -o ../docker ./cmd/docker)
}

build_compose() {
	needs github.com/docker/compose/v5 "$1"
	go build -ldflags "-X github.com/docker/compose/v5/internal.Version=$1" -o docker-compose github.com/docker/compose/v5/cmd
}

# build_nerdctl replaces nerdctl's test module (mod/tigron) with an empty module, because the test module is not available.
build_nerdctl() {
	copy "github.com/containerd/nerdctl/v2@$1"
	mkdir -p source/mod/tigron
	echo "module github.com/containerd/nerdctl/mod/tigron" >source/mod/tigron/go.mod
	rm source/cmd/nerdctl/helpers/testing_linux.go
	(cd source && go build -ldflags "-X github.com/containerd/nerdctl/v2/pkg/version.Version=$1" -o ../nerdctl ./cmd/nerdctl)
}

# containerd 1.7 is a directory with its programs, because containerd 2 has programs of the same names.
build_containerd17() {
	local program module=github.com/containerd/containerd
	needs "$module" "$1"
	for program in containerd containerd-shim-runc-v2 ctr; do
		go build -ldflags "-X $module/version.Version=$1" -o "containerd-1.7/$program" "$module/cmd/$program"
	done
}

# Docker 26.1 is a directory with its engine, because Docker 29 has an engine of the same name. In its source, go.mod is named vendor.mod.
build_docker26() {
	local version=${1#v} module=github.com/docker/docker
	copy "$module@$1"
	mv source/vendor.mod source/go.mod
	mv source/vendor.sum source/go.sum
	mkdir docker-26.1
	(cd source && go build -tags exclude_graphdriver_btrfs -ldflags "-X $module/dockerversion.Version=${version%+*}" -o ../docker-26.1/dockerd ./cmd/dockerd)
}

mkdir -p "$cache"
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
build crio "$crio" build_crio
build pinns "$crio" build_pinns
build runc "$runc" build_runc
build dockerd "$dockerd" build_dockerd
build docker-compose "$compose" build_compose
build nerdctl "$nerdctl" build_nerdctl
build docker "$docker" build_docker
build containerd-1.7 "$containerd17" build_containerd17
build docker-26.1 "$docker26" build_docker26
ln -sf "$containerd"/* "$cache/"
mkdir -p "$cache/config/cli-plugins" # of the docker command line
ln -sf ../../docker-compose "$cache/config/cli-plugins/docker-compose"
echo "$cache"
