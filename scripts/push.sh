#!/usr/bin/env bash
# Publishes the files of dist/: scripts/push.sh images|chart|sign|github..., called by make push, sign and github-release.
#
# It refuses a dist/ that is incomplete or differs from its SHA256SUMS. The credentials of the registry are those of docker login
# (~/.docker/config.json). PLAIN_HTTP=1 pushes to a registry without TLS. bin/pushed-chart stores the hash of SHA256SUMS and the reference
# of the pushed chart with its digest. sign needs the digest, because a tag can move.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

fail() { echo "make push: $*" >&2; exit 1; }

# refused fails because of a step that may follow pushed images.
pushed=
refused() { fail "$*${pushed:+; pushed before: $pushed; repeat make push}"; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# check fails unless SHA256SUMS lists exactly the files of dist, with their content.
check() {
	[ -f dist/SHA256SUMS ] || fail "no dist/SHA256SUMS: run make release first"
	diff <(cut -c67- dist/SHA256SUMS) <(cd dist && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort) >"$stage/diff" ||
		fail "dist has other files than its SHA256SUMS, such as $(sed -n 's/^[<>] //p' "$stage/diff" | head -1): run make release again"
	(cd dist && sha256sum --check --strict --quiet SHA256SUMS) >"$stage/diff" 2>&1 ||
		fail "dist differs from its SHA256SUMS ($(head -1 "$stage/diff")): run make release again"
	read -r first <dist/images.txt
	registry=${first%/candor:*} version=${first#*/candor:}
	version=${version%@*}
}

# check_access fails before the first push unless the registry accepts the pushes of the steps.
check_access() {
	local repositories=()
	[[ " $* " != *" images "* ]] || mapfile -t repositories < <(sed 's/:[^:]*@.*//' dist/images.txt)
	[[ " $* " != *" chart "* ]] || repositories+=("$registry/charts/candor")
	[ ${#repositories[@]} -gt 0 ] || return 0
	bin/tools/release/access ${PLAIN_HTTP:+--plain-http} "${repositories[@]}" 2>"$stage/log" || fail "$(tail -1 "$stage/log")"
}

images() {
	local reference program digested
	while read -r reference; do
		program=${reference#"$registry/"}
		program=${program%%:*}
		mkdir "$stage/$program"
		tar -C "$stage/$program" -xf "dist/$program-image.tar"
		digested=$(bin/tools/release/image push ${PLAIN_HTTP:+--plain-http} "$stage/$program" "${reference%@*}" 2>"$stage/log") ||
			refused "$(tail -1 "$stage/log")"
		[ "${digested#*@}" = "${reference#*@}" ] || fail "pushed $digested, want the digest ${reference#*@}"
		pushed+=${pushed:+, }$digested
		echo "$digested"
	done <dist/images.txt
}

# chart pushes the chart to REGISTRY/charts/candor. helm writes the time of the file into the manifest. The time in the archive makes
# the digest depend only on the content of dist.
chart() {
	local helm name=candor-${version#v}.tgz digest
	helm=$(scripts/helm.sh)
	cp "dist/$name" "$stage/$name"
	tar -C "$stage" -xzf "$stage/$name" candor/Chart.yaml
	touch -r "$stage/candor/Chart.yaml" "$stage/$name"
	TZ=UTC "$helm" push "$stage/$name" "oci://$registry/charts" ${PLAIN_HTTP:+--plain-http} >"$stage/log" 2>&1 ||
		refused "cannot push the chart to $registry: $(tail -1 "$stage/log")"
	digest=$(sed -n 's/^Digest: //p' "$stage/log")
	[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || fail "helm push has printed no digest: $(tail -1 "$stage/log")"
	mkdir -p bin
	echo "$(dist_sum) $registry/charts/candor@$digest" >bin/pushed-chart
	echo "$registry/charts/candor@$digest"
}

dist_sum() { sha256sum <dist/SHA256SUMS | cut -d' ' -f1; }

# sign signs the images and the chart with the identity of the workflow. A chart that is not pushed yet is an error.
sign() {
	local reference sum= chart=
	if [ -e bin/pushed-chart ]; then
		read -r sum chart <bin/pushed-chart
	fi
	[ "$sum" = "$(dist_sum)" ] || fail "the chart of dist is not pushed: run make push first"
	while read -r reference; do
		cosign sign --yes "${reference%%:v*}@${reference#*@}"
	done <dist/images.txt
	cosign sign --yes "$chart"
}

github() {
	local files prerelease=
	mapfile -t files < <(find dist -maxdepth 1 -type f ! -name RELEASE_NOTES.md | sort)
	[[ $version != *-* ]] || prerelease=--prerelease
	gh release create "$version" --verify-tag --title "$version" --notes-file dist/RELEASE_NOTES.md $prerelease "${files[@]}"
}

[ $# -gt 0 ] || fail "no argument: must be images, chart, sign or github"
for step; do
	case $step in
	images | chart | sign | github) ;;
	*) fail "argument \"$step\": must be images, chart, sign or github" ;;
	esac
done
check
check_access "$@"
for step; do
	"$step"
done
