#!/usr/bin/env bash
# Runs each fuzz target of the main module: scripts/fuzz.sh [TIME [PACKAGE...]]. TIME is for each target, 1s by default. A target fails if
# go test finds an input that breaks it; go test stores this input in the package's testdata/fuzz. A target also fails if it executes fewer
# than 1,000 inputs in four times its time, because such a slow target finds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${1:-1s} least=1000
shift $(($# > 0))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each run starts with the seeds alone. If it also had the inputs of earlier runs, loading these inputs would take all the time.
cache=$work/cache
failures=()

# fuzz N DIR PACKAGE TARGET runs a target of the program N and prints its output. go test minimizes each input that reaches new code, by
# default for up to a minute, and executes nothing else meanwhile. Without a bound on this minimization, a large seed uses up all the time
# of the target.
fuzz() {
	(cd "$2" && exec "$work/$1.test" -test.run='^$' -test.fuzz="^$4\$" -test.fuzztime="$time" -test.fuzzminimizetime=20x \
		-test.fuzzcachedir="$cache/$3" </dev/null 2>&1)
}

# executions prints the last count in an output.
executions() {
	local n
	n=$(sed -n 's/^fuzz: .* execs: \([0-9]*\) .*/\1/p' <<<"$1" | tail -1)
	echo "${n:-0}"
}

# check N DIR PACKAGE TARGET runs a target and records its failure. A target with too few executions runs up to three more times,
# because the machine can have been busy.
check() {
	local output total=0 code
	for try in 1 2 3 4; do
		code=0
		output=$(fuzz "$@") || code=$?
		total=$((total + $(executions "$output")))
		if [ $code = 0 ]; then
			[ $total -lt $least ] || break
		# When the time ends in the middle of an input, go test can report a failure without a failing input.
		elif grep -q 'Failing input written' <<<"$output" || ! grep -q 'context deadline exceeded' <<<"$output"; then
			break
		fi
	done
	echo "fuzz: $3 $4: $total executions in $try x $time"
	if [ $code != 0 ]; then
		echo "$output"
		failures+=("$3 $4: failed")
	elif [ $total -lt $least ]; then
		failures+=("$3 $4: $total executions in $try x $time, fewer than $least")
	fi
}

# targets DIR lists the fuzz targets of a package.
targets() { sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$1"/*_test.go; }

# All programs are built first, two at a time, because go test -c links a program on one CPU.
while read -r dir package; do
	[ -z "$(targets "$dir")" ] || echo "$dir $package"
done < <($go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}}{{end}}' "${@:-./...}") >"$work/packages"
awk '{print NR, $2}' "$work/packages" | xargs -r -n 2 -P 2 sh -c "$go test -c -vet=off -fuzz=. -o $work/\$1.test \$2" build

n=0
while read -r dir package; do
	n=$((n + 1))
	for target in $(targets "$dir"); do
		check "$n" "$dir" "$package" "$target"
	done
done <"$work/packages"

if [ ${#failures[@]} -gt 0 ]; then
	printf -- '--- fuzz: %s\n' "${failures[@]}"
	exit 1
fi
