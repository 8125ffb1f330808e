#!/usr/bin/env bash
# Runs each fuzz target of the main module: scripts/fuzz.sh [TIME [PACKAGE...]]. TIME is for each target, 4s by default.
# A target fails on an input that breaks it, which go test stores in the package's testdata/fuzz, and when it executes
# fewer than 1,000 inputs in its time, because so slow a target finds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${1:-4s} least=1000
shift $(($# > 0))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$($go env GOCACHE)/fuzz
failures=()

# fuzz DIR PACKAGE TARGET runs a target and prints its output.
# go test minimizes each input that reaches new code, by default for up to a minute, and executes nothing else meanwhile.
# Without a bound on it, one large seed uses up all the time.
fuzz() {
	(cd "$1" && exec "$work/test" -test.run='^$' -test.fuzz="^$3\$" -test.fuzztime="$time" -test.fuzzminimizetime=20x \
		-test.fuzzcachedir="$cache/$2" </dev/null 2>&1)
}

# check DIR PACKAGE TARGET runs a target and records its failure.
check() {
	local output executions code=0
	output=$(fuzz "$@") || code=$?
	# When the time ends in the middle of an input, go test can report a failure without a failing input: try again.
	if [ $code != 0 ] && ! grep -q 'Failing input written' <<<"$output" && grep -q 'context deadline exceeded' <<<"$output"; then
		code=0
		output=$(fuzz "$@") || code=$?
	fi
	executions=$(sed -n 's/^fuzz: .* execs: \([0-9]*\) .*/\1/p' <<<"$output" | tail -1)
	echo "fuzz: $2 $3: ${executions:-0} executions in $time"
	if [ $code != 0 ]; then
		echo "$output"
		failures+=("$2 $3: failed")
	elif [ "${executions:-0}" -lt $least ]; then
		failures+=("$2 $3: ${executions:-0} executions in $time, fewer than $least")
	fi
}

while read -r dir package; do
	targets=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go)
	[ -n "$targets" ] || continue
	$go test -c -vet=off -fuzz=. -o "$work/test" "$package"
	for target in $targets; do
		check "$dir" "$package" "$target"
	done
done < <($go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}}{{end}}' "${@:-./...}")

if [ ${#failures[@]} -gt 0 ]; then
	printf -- '--- fuzz: %s\n' "${failures[@]}"
	exit 1
fi
