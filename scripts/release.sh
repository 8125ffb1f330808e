#!/usr/bin/env bash
# Writes the files of a release to dist/: scripts/release.sh [--check] VERSION, called by make release.
#
# It needs neither root nor a container engine. All files depend only on the commit, on VERSION, REGISTRY and the Go version: two
# runs write equal bytes. SOURCE_DATE_EPOCH is the time in all files; default: the time of the commit. With --check, the script
# only checks that VERSION can be released. ARCHES selects architectures for tests.
set -euo pipefail
export LC_ALL=C TZ=UTC
umask 022
cd "$(dirname "$0")/.."

fail() { echo "make release: ${*//$'\n'/ }" >&2; exit 1; }

check_only=
if [ "${1:-}" = --check ]; then
	check_only=1
	shift
fi
version=${1:-}
number=${version#v}
git() { command git -c safe.directory='*' "$@"; }

# check fails if VERSION cannot be released from this source tree.
check() {
	local part='(0|[1-9][0-9]*)' word='(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)'
	[[ $version =~ ^v$part\.$part\.$part(-$word(\.$word)*)?$ ]] ||
		fail "VERSION \"$version\": must be a semantic version such as v0.2.0 or v0.2.0-rc.1; run make release VERSION=v0.2.0"
	local changed
	changed=$(git status --porcelain) || fail "no git repository: releases are built from a commit"
	[ -z "$changed" ] ||
		fail "$(wc -l <<<"$changed") changed files, such as $(head -1 <<<"$changed" | cut -c4-): commit them or run git stash first"
	grep -qE "^## \[${number//./\\.}\] - 20[0-9]{2}-[01][0-9]-[0-3][0-9]$" CHANGELOG.md ||
		fail "CHANGELOG.md has no section \"## [$number] - $(date +%F)\": rename the section Unreleased"
	[ -n "$(notes)" ] || fail "CHANGELOG.md: the section $number is empty"
}

# notes prints the section of the version in CHANGELOG.md, without its heading.
notes() {
	awk -v heading="## [$number] - " '
		index($0, heading) == 1 { inside = 1; next }
		/^## / || /^\[[^]]*\]: / { inside = 0 }
		inside && (NF || any) { any = 1; print }' CHANGELOG.md
}

check
[ -z "$check_only" ] || exit 0

: "${REGISTRY:?}" "${KUBERNETES:?}"
go=${GO:-go}
arches=${ARCHES:-amd64 arm64}
tools=$PWD/bin/tools/release
commit=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show -s --format=%ct HEAD)}
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]{1,11}$ ]] || fail "SOURCE_DATE_EPOCH \"$SOURCE_DATE_EPOCH\": must be the seconds since 1970"
day=$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
# Settings of the user would change the binaries.
unset GOFLAGS GOAMD64 GOARM64 GOEXPERIMENT GOOS GOARCH
export CGO_ENABLED=0

mkdir -p bin
exec 9>bin/release.lock
flock -n 9 || fail "another make release runs in this source tree"
# The script writes dist.new and renames it at the end. So an interrupted run does not change dist, which still holds the earlier release.
out=$PWD/dist.new
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
rm -rf "$out"
mkdir "$out"
say() { echo "release: $*"; }

flags="-X main.version=$version -X main.commit=$commit -X main.date=$day"

# build ARCH DIRECTORY PACKAGE FILE FLAGS [OS] builds a static binary without paths, build ID and symbols.
build() {
	say "$(basename "$4")"
	(cd "$2" && GOOS=${6:-linux} GOARCH=$1 "$go" build -trimpath -buildvcs=false -ldflags "-s -w -buildid= $5" -o "$4" "$3")
}

# archive DIRECTORY FILE writes a tar archive whose bytes depend only on the content of the files.
archive() {
	tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$1" -cf "$2" "${@:3}"
}

binaries() {
	local arch file
	for arch in $arches; do
		build "$arch" . ./cmd/candor "$out/candor-linux-$arch" "$flags"
		build "$arch" kube/scheduler ./cmd/candor-scheduler "$out/candor-scheduler-linux-$arch" \
			"-X k8s.io/component-base/version.gitVersion=$KUBERNETES+candor"
		build "$arch" kube/kubectl-candor ./cmd/candor-web "$out/candor-web-linux-$arch" ""
	done
	for file in "$out"/candor-*; do
		modules "$file" "$file"
	done
}

# modules BINARY NAME writes the list of modules of a binary to NAME.cdx.json.
modules() {
	"$tools/cyclonedx-gomod" bin -json -noserial -notimestamp -version "$version" -output "$2.cdx.json" "$1" 2>"$stage/log" ||
		{ cat "$stage/log" >&2; fail "cannot list the modules of $2"; }
}

# shared_files writes the files that packages of all architectures have.
shared_files() {
	"$go" run -trimpath -buildvcs=false -tags generate -ldflags "$flags" ./cmd/candor generate "$stage/share"
	local page
	for page in "$stage"/share/man/man1/*.1; do
		gzip -n -9 "$page"
	done
	for page in candor-runc candor-flexible-runc; do
		ln -s candor.1.gz "$stage/share/man/man1/$page.1.gz"
	done
	sed 's:/usr/local/bin:/usr/bin:' deploy/systemd/candor-nri.service >"$stage/candor-nri.service"
	printf 'candor (%s-1) unstable; urgency=medium\n\n  * Release %s. CHANGELOG.md of the source tree lists the changes.\n\n -- %s  %s\n' \
		"${number/-/\~}" "$version" "Candor maintainers <maintainers@candor.dev>" "$(date -R -d "@$SOURCE_DATE_EPOCH")" |
		gzip -n -9 >"$stage/changelog.gz"
}

packages() {
	local arch format file machine
	for arch in $arches; do
		machine=x86_64
		[ "$arch" = amd64 ] || machine=aarch64
		for format in deb rpm; do
			file=candor_${number}_$arch.deb
			[ "$format" = deb ] || file=candor-$number.$machine.rpm
			say "$file"
			ARCH=$arch VERSION=$version BINARY=$out/candor-linux-$arch STAGE=$stage \
				"$tools/nfpm" package --config deploy/packages/nfpm.yaml --packager "$format" --target "$out/$file" >"$stage/log" ||
				{ cat "$stage/log" >&2; fail "cannot build the $format"; }
		done
	done
}

# images writes each image as an archive of an OCI layout, and its reference with the digest to images.txt.
images() {
	local program arch digest binaries
	for program in candor candor-scheduler candor-web; do
		say "image $program"
		binaries=()
		for arch in $arches; do
			binaries+=("$arch=$out/$program-linux-$arch")
		done
		digest=$("$tools/image" build "$stage/$program" "$program" "$version" "$commit" "${binaries[@]}")
		archive "$stage/$program" "$out/$program-image.tar" oci-layout index.json blobs
		echo "$REGISTRY/$program:$version@$digest" >>"$out/images.txt"
	done
}

# chart packs the chart with the version and the digests of the images.
chart() {
	say "chart"
	local dir=$stage/chart/candor program digest
	mkdir "$stage/chart"
	cp -R deploy/helm/candor "$dir"
	rm "$dir/README.md.gotmpl" "$dir/.helmignore"
	sed -i -e "s/^version: .*/version: $number/" -e "s/^appVersion: .*/appVersion: \"$version\"/" "$dir/Chart.yaml"
	for program in candor candor-scheduler candor-web; do
		digest=$(sed -n "s|^$REGISTRY/$program:$version@||p" "$out/images.txt")
		sed -i "s|^\( *\)repository: $program\$|\1repository: $REGISTRY/$program|" "$dir/values.yaml"
		sed -i "s|^  candor.dev/$program-digest: .*|  candor.dev/$program-digest: $digest|" "$dir/Chart.yaml"
		grep -qF "repository: $REGISTRY/$program" "$dir/values.yaml" && grep -qF "$program-digest: sha256:" "$dir/Chart.yaml" ||
			fail "values.yaml or Chart.yaml of the chart has no place for the image of $program"
		printf '    - name: %s\n      image: %s\n' "$program" "$REGISTRY/$program:$version@$digest" >>"$stage/images.yaml"
	done
	[[ $version != *-* ]] || sed -i 's/^  artifacthub.io\/prerelease: .*/  artifacthub.io\/prerelease: "true"/' "$dir/Chart.yaml"
	sed -i "/^  artifacthub.io\/images: |\$/r $stage/images.yaml" "$dir/Chart.yaml"
	"$helm" lint --strict "$dir" >"$stage/log" || { cat "$stage/log" >&2; fail "the chart is not valid"; }
	archive "$stage/chart" "$stage/chart.tar" candor
	gzip -n -9 <"$stage/chart.tar" >"$out/candor-$number.tgz"
}

# plugin writes an archive of kubectl candor for each platform, and the manifest for krew. The plugin names the image of the release by its
# digest, because it runs the image with the rights of root.
plugin() {
	local os arch name dir image package=github.com/candor-project/candor/kube/kubectl-candor/command
	image=$(sed -n "s|^\($REGISTRY/candor:$version@.*\)|\1|p" "$out/images.txt")
	sed "s|VERSION|$version|g" deploy/krew/candor.yaml >"$out/candor.yaml"
	for os in linux darwin; do
		for arch in $arches; do
			name=kubectl-candor-$os-$arch
			dir=$stage/$name
			mkdir "$dir"
			build "$arch" kube/kubectl-candor ./cmd/kubectl-candor "$dir/kubectl-candor" "-X $package.Version=$version -X $package.Image=$image" "$os"
			modules "$dir/kubectl-candor" "$out/$name"
			cp LICENSE "$dir/"
			archive "$dir" "$stage/$name.tar" LICENSE kubectl-candor
			gzip -n -9 <"$stage/$name.tar" >"$out/$name.tar.gz"
			sed "s|OS|$os|; s|ARCH|$arch|; s|NAME|$version/$name|; s|SUM|$(sha256sum <"$out/$name.tar.gz" | cut -d' ' -f1)|" deploy/krew/platform.yaml >>"$out/candor.yaml"
		done
	done
}

helm=$(scripts/helm.sh)
binaries
shared_files
packages
images
chart
plugin
cp deploy/systemd/candor-nri.service "$out/" # for the static binary
notes >"$out/RELEASE_NOTES.md"
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
rm -rf dist
mv "$out" dist
say "dist/ has $(find dist -type f | wc -l) files of $version ($(du -sh dist | cut -f1))"
