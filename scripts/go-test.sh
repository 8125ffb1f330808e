#!/usr/bin/env bash
# Runs go test, and tests that failed once more: scripts/go-test.sh [FLAG...] ./PACKAGE...
# The tests use this machine's kernel, engines and disks beside whatever else it does. What fails twice is broken. What
# failed once is named on the last lines, to be looked into. What does not build, or more than three packages, is not tried again.
set -euo pipefail

flags=() packages=()
for argument; do
	case $argument in
	./*) packages+=("$argument") ;;
	*) flags+=("$argument") ;;
	esac
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
${GO:-go} test "${flags[@]}" "${packages[@]}" 2>&1 | tee "$log" && exit 0

# Each package that failed, and which tests of it: all where it panicked, which ends it, or says of none that it failed.
mapfile -t failed < <(awk -F'[\t ]' '
	/^--- FAIL: / { names = names (names == "" ? "" : "|") $3 }
	/^panic: / { whole = 1 }
	/^FAIL\t[^ \t]+\t[0-9.]+s$/ { print $2 "\t" (whole || names == "" ? "." : "^(" names ")$") }
	/^(FAIL|ok  |\?   )\t/ { names = ""; whole = 0 }' "$log")
if grep -q '^FAIL.*\[.* failed\]$' "$log" || [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt 3 ]; then
	exit 1
fi
for each in "${failed[@]}"; do
	echo "--- once more: ${each/$'\t'/ }"
	${GO:-go} test "${flags[@]}" -run "${each#*$'\t'}" "${each%$'\t'*}"
done
printf -- '--- failed once, passed then: %s\n' "${failed[@]/$'\t'/ }"
