#!/usr/bin/env bash
# Runs go test, and packages that failed once more: scripts/go-test.sh [FLAG...] ./PACKAGE...
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

mapfile -t failed < <(sed -n 's/^FAIL\t\([^ \t]*\)\t[0-9.]*s$/\1/p' "$log" | sort -u)
if grep -q '^FAIL.*\[.* failed\]$' "$log" || [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt 3 ]; then
	exit 1
fi
echo "--- once more: ${failed[*]}"
${GO:-go} test "${flags[@]}" "${failed[@]}"
echo "--- failed once, passed then: ${failed[*]}"
