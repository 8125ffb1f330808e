#!/usr/bin/env bash
# Builds the kernel of the column "patch" of make ledger, once, and prints the path of its image:
#   - Linux 6.1 from Debian's package linux-source-6.1, with a pinned version and checksum (139 MB);
#   - e2e/ledgertables/kernel/borrowing.patch, which charges a cgroup for CPU time of other cgroups;
#   - the few options of e2e/ledgertables/kernel/config.
# The build needs amd64, root or sudo for missing packages, and 2 GB of disk. It does not install the kernel: only test guests boot it.
# CANDOR_LEDGER_SOURCE=FILE is a downloaded package, for systems whose package lists lack this version.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
CANDOR_LEDGER_SOURCE=${CANDOR_LEDGER_SOURCE:+$(realpath "$CANDOR_LEDGER_SOURCE")}
cd "$(dirname "$0")/.."

version=6.1.176-1
checksum=9305d1a151b8e83dcb88aa11361e7b9513f0c252bdf7f5647e4542762d99c094
package=linux-source-6.1
inputs=$PWD/e2e/ledgertables/kernel
cache=${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}/ledger-kernel
image=$cache/vmlinuz-${version%-*}-borrowing

say() { echo "ledger-kernel: $*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo --preserve-env=DEBIAN_FRONTEND,LC_ALL "$@"
	else
		fail "$1 needs root and there is no sudo"
	fi
}

update() {
	[ -z "${updated:-}" ] || return 0
	say "apt-get update"
	as_root apt-get -qq -o Acquire::Retries=3 update >&2
	updated=1
}

# install_tools installs the programs and headers that the build needs.
install_tools() {
	local list="" tool
	for tool in bc bison flex gcc make patch; do
		command -v "$tool" >/dev/null || list+=" $tool"
	done
	command -v xz >/dev/null || list+=" xz-utils"
	[ -e /usr/include/libelf.h ] || list+=" libelf-dev"
	[ -n "$list" ] || return 0
	update
	say "apt-get install$list"
	# shellcheck disable=SC2086 # a list of words
	as_root apt-get -qq -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install --no-install-recommends $list >"$work/apt.log" 2>&1 ||
		{ tail -20 "$work/apt.log" >&2; fail "cannot install$list: install them by hand"; }
}

# fetch_source unpacks the source into $work/linux.
fetch_source() {
	local deb=${CANDOR_LEDGER_SOURCE:-}
	if [ -z "$deb" ]; then
		update
		say "download $package $version"
		(cd "$work" && apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root download "$package=$version") >&2 ||
			fail "cannot download $package $version: get its package from https://snapshot.debian.org/package/linux/$version/, and set CANDOR_LEDGER_SOURCE to the file"
		deb=$(echo "$work/$package"_*.deb)
	fi
	echo "$checksum  $deb" | sha256sum --check --quiet >&2 || fail "$deb: wrong checksum; must be $package $version"
	mkdir "$work/linux"
	dpkg-deb --fsys-tarfile "$deb" | tar -x -O "./usr/src/$package.tar.xz" | tar -x -J -C "$work/linux" --strip-components=1
}

# configure writes the configuration and checks that it has each option: make drops options with unmet dependencies.
configure() {
	build KCONFIG_ALLCONFIG="$inputs/config" allnoconfig
	local option
	while read -r option; do
		grep -qx "$option" "$work/linux/.config" || fail "the configuration lacks $option"
	done < <(grep '^CONFIG_' "$inputs/config")
}

build() {
	make -s -C "$work/linux" -j"$(nproc)" ARCH=x86_64 LOCALVERSION=-borrowing KBUILD_BUILD_USER=candor KBUILD_BUILD_HOST=candor "$@" >"$work/make.log" 2>&1 ||
		{ tail -30 "$work/make.log" >&2; fail "make $* failed"; }
}

[ "$(uname -m)" = x86_64 ] || fail "guests run on amd64 only"
stamp=$(cat scripts/ledger-kernel.sh "$inputs"/* | sha256sum | cut -d' ' -f1)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -e "$image" ] || [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
	work=$(mktemp -d "$cache/work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	install_tools
	fetch_source
	patch -s -p1 --fuzz=0 -d "$work/linux" <"$inputs/borrowing.patch" >&2 || fail "the patch does not apply"
	configure
	say "build ${image##*/}"
	build bzImage
	rm -f "$cache"/vmlinuz-* "$cache/stamp"
	mv "$work/linux/arch/x86/boot/bzImage" "$image"
	echo "$stamp" >"$cache/stamp"
fi
echo "$image"
