#!/usr/bin/env bash
# Installs the dependencies of the tests, once (Debian 12 and later, Ubuntu 22.04 and later):
#   - the packages of e2e/packages.txt and an emulator, with apt-get (root, or sudo);
#   - containerd and helm, built from their Go modules (5 minutes);
#   - kernels, busybox and a systemd root for the test guests, unpacked into a cache directory, not installed.
# If all dependencies are present, the script exits at once.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd "$(dirname "$0")/.."

cache=${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}
kernel_packages="linux-image-cloud-amd64 linux-image-6.12-cloud-amd64 linux-image-virtual" # those the distribution has
containerd_version=v2.4.2
helm_version=v3.22.0
systemd_packages="systemd systemd-sysv dbus coreutils bash dash"

say() { echo "test-deps: $*"; }
fail() { say "$*" >&2; exit 1; }

# wanted lists the packages to install.
wanted() {
	echo qemu-system-x86
	if [ -f e2e/packages.txt ]; then
		sed 's/#.*//' e2e/packages.txt
	fi
}

# program prints the program that the tests need from a package. A program from any source is sufficient.
program() {
	case $1 in
	default-jdk-headless) echo javac ;;
	nodejs) echo node ;;
	nginx-light) echo nginx ;;
	docker.io) echo dockerd ;;
	busybox-static) echo busybox ;;
	btrfs-progs) echo mkfs.btrfs ;;
	qemu-system-x86) echo qemu-system-x86_64 ;;
	*) echo "$1" ;;
	esac
}

# missing lists the packages with missing programs.
missing() {
	for p in $(wanted); do
		command -v "$(program "$p")" >/dev/null && continue
		dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || echo "$p"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo --preserve-env=DEBIAN_FRONTEND,LC_ALL "$@"
	else
		fail "$1 needs root and there is no sudo; install by hand: $(missing | xargs)"
	fi
}

update() {
	[ -z "${updated:-}" ] || return 0
	say "apt-get update"
	as_root apt-get -qq -o Acquire::Retries=3 update
	updated=1
}

install_packages() {
	local list
	list=$(missing | xargs)
	[ -n "$list" ] || return 0
	update
	say "apt-get install $list"
	no_services
	# shellcheck disable=SC2086 # a list of words
	as_root apt-get -qq -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install --no-install-recommends $list >"$work/apt.log" 2>&1 ||
		{ tail -20 "$work/apt.log" >&2; fail "apt-get install failed"; }
	services_again
}

# Until services_again, no_services prevents packages such as nginx from starting their services. It installs a policy-rc.d, which
# invoke-rc.d(8) asks for permission. An existing policy stays in force.
policy=/usr/sbin/policy-rc.d
no_services() {
	[ ! -e "$policy" ] || return 0
	printf '#!/bin/sh\nexit 101\n' >"$work/policy-rc.d"
	as_root install -m 755 "$work/policy-rc.d" "$policy"
	our_policy=1
}

services_again() {
	[ -n "${our_policy:-}" ] || return 0
	as_root rm -f "$policy"
	our_policy=
}

# download PACKAGE... downloads packages into the current directory.
download() {
	apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root download "$@" || fail "can't download $*"
}

# unpack DEB DIR unpacks a package without its scripts, and without files that no guest reads.
unpack() {
	mkdir -p "$2"
	dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner \
		--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/i18n/*' --exclude='./lib/modules/*'
}

fetch_kernels() {
	mkdir -p "$work/kernels" "$work/boot"
	local meta image modules
	for meta in $kernel_packages; do
		image=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1) || true
		[ -n "$image" ] || continue
		say "kernel $image"
		(cd "$work/boot" && download "$image")
		modules=linux-modules-${image#linux-image-} # where Ubuntu keeps the configuration
		if apt-cache show "$modules" >/dev/null 2>&1; then
			(cd "$work/boot" && download "$modules")
		fi
	done
	for deb in "$work"/boot/*.deb; do
		[ -f "$deb" ] || fail "no kernel: the package lists have none of: $kernel_packages"
		unpack "$deb" "$work/boot/root"
	done
	cp "$work"/boot/root/boot/vmlinuz-* "$work"/boot/root/boot/config-* "$work/kernels/"
	chmod 644 "$work"/kernels/*
}

fetch_busybox() {
	say "busybox-static"
	mkdir -p "$work/bb"
	(cd "$work/bb" && download busybox-static)
	unpack "$work"/bb/*.deb "$work/bb/root"
	install -m 755 "$work"/bb/root/bin/busybox "$work/busybox" 2>/dev/null || install -m 755 "$work"/bb/root/usr/bin/busybox "$work/busybox"
}

# fetch_systemd unpacks systemd and all its dependencies, regardless of the installed packages.
fetch_systemd() {
	say "systemd for a guest: $systemd_packages, with what they depend on"
	mkdir -p "$work/debs/partial" "$work/systemd"
	: >"$work/status"
	# shellcheck disable=SC2086
	apt-get -qq -y -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work/debs" \
		--no-install-recommends --download-only install base-files $systemd_packages >"$work/apt.log" 2>&1 ||
		{ tail -20 "$work/apt.log" >&2; fail "can't download systemd"; }
	# In Debian 12, these are links in the root directory, and packages unpack through them.
	for d in bin sbin lib lib64; do
		mkdir -p "$work/systemd/usr/$d" && ln -s "usr/$d" "$work/systemd/$d"
	done
	for deb in "$work"/debs/*.deb; do
		unpack "$deb" "$work/systemd"
	done
}

# build_containerd builds the unmodified containerd release for e2e/containerd, which few distributions have.
build_containerd() {
	say "containerd $containerd_version"
	mkdir -p "$work/containerd"
	CGO_ENABLED=0 GOFLAGS='' GOBIN="$work/containerd" go install \
		github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}@"$containerd_version" || fail "can't build containerd"
}

# build_helm builds helm for the tests of deploy.
build_helm() {
	say "helm $helm_version"
	mkdir -p "$work/helm"
	CGO_ENABLED=0 GOFLAGS='' GOBIN="$work/helm" go install helm.sh/helm/v3/cmd/helm@"$helm_version" || fail "can't build helm"
}

ready() {
	[ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && [ -z "$(missing)" ]
}

command -v apt-get >/dev/null || fail "this system has no apt-get; see docs/testing.md for what the tests need"
stamp=$(sha256sum scripts/test-deps.sh | cut -d' ' -f1)
if ready; then
	exit 0
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'services_again; rm -rf "$work"' EXIT
install_packages
if [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
	build_containerd
	build_helm
	rm -rf "$cache/containerd" "$cache/helm"
	mv "$work/containerd" "$work/helm" "$cache/"
fi
if [ "$(dpkg --print-architecture)" != amd64 ]; then
	say "guests are tested on amd64 only: no kernels for $(dpkg --print-architecture)"
elif [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
	update
	fetch_kernels
	fetch_busybox
	fetch_systemd
	rm -rf "$cache/stamp" "$cache/kernels" "$cache/systemd"
	mv "$work/kernels" "$work/busybox" "$work/systemd" "$cache/"
fi
echo "$stamp" >"$cache/stamp"
rm -rf "$work"
say "done; kept in $cache ($(du -sh "$cache" | cut -f1))"
