#!/usr/bin/env bash
# Runs each fuzz target of the module for a while: scripts/fuzz.sh [TIME], default 2s. What fails stays in the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-2s}

grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do
	dir=$(dirname "$file")
	[ "$(cd "$dir" && go list -m -f '{{.Dir}}')" = "$PWD" ] || continue # another module's
	name=${func#func }
	echo "fuzz: $dir $name for $time"
	fuzz() { output=$(go test -run='^$' -fuzz="^$name\$" -fuzztime="$time" "$dir" </dev/null 2>&1); }
	# Where its time is over in the middle of an input, go test may call that a failure, without an input that fails.
	if ! fuzz && { grep -q 'Failing input written' <<<"$output" || ! grep -q 'context deadline exceeded' <<<"$output" || ! fuzz; }; then
		echo "$output"
		exit 1
	fi
done
