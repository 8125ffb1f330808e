#!/usr/bin/env bash
# Prints the path of helm, in the version of scripts/test-deps.sh: from its cache, or built into bin/tools (5 minutes).
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^helm_version=//p' scripts/test-deps.sh)
is_current() { [ -x "$1" ] && [[ $("${GO:-go}" version -m "$1") == *helm.sh/helm/v3*"$version"* ]]; }

for program in "${CANDOR_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-guest}/helm/helm" "$PWD/bin/tools/helm"; do
	if is_current "$program"; then
		echo "$program"
		exit
	fi
done
CGO_ENABLED=0 GOFLAGS='' GOBIN="$PWD/bin/tools" "${GO:-go}" install "helm.sh/helm/v3/cmd/helm@$version" >&2
echo "$PWD/bin/tools/helm"
