#!/bin/sh
# Measures the tables of docs/benchmarks/advise.md on this machine and prints them with the predictions of the model. Needs root and two
# idle CPUs. ROUNDS (default 9) is the number of measurements, about 4 minutes each; 1 for a trial.
set -eu
cd "$(dirname "$0")/.."
: "${ROUNDS:=9}"
export CANDOR_THROTTLING_ROUNDS="$ROUNDS"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0

# table TITLE TEST COLUMNS runs a test and prints its rows as a Markdown table with these columns.
table() {
	printf '\n%s (%s, rounds: %s)\n\n' "$1" "$2" "$ROUNDS"
	status=0
	"${GO:-go}" test -count=1 -timeout 0 ./e2e -run "^$2\$" -v >"$out" 2>&1 || status=$?
	sed -n 's/^ *[a-z_]*\.go:[0-9]*: \(.*not judged.*\)/\1/p' "$out"
	printf '| %s | other load |\n' "$3"
	printf '| %s | --- |\n' "$(printf '%s' "$3" | sed 's/[^|]*/ --- /g; s/^ //; s/ $//')"
	sed -n 's/^ *\(|.*|\)$/\1/p' "$out" | sed 's/| others \([^|]*\) |$/| \1 |/'
	if [ "$status" -ne 0 ]; then
		grep -E '_test.go:|^FAIL|^---' "$out" >&2
		failed=$status
	fi
}

table 'Programs' TestThrottling 'program; quota per period | throttled periods of a burst | CPU time of a burst, ms | until its last thread ends, ms'
table 'A server with on/off clients' TestThrottledServer 'server; quota per period | throttled periods | completed calls | mean duration of a call, ms'
table 'nginx at the recommended limit' TestAdvised 'limit | throttled, % of the periods | delay of a call, ms'
table 'Several programs on the same CPUs' TestMultiplexing 'instances; quota per period | duration of a burst, ms | throttled periods of a burst'
table 'A chain of servers' TestChain 'servers; quota per period | mean delay of a call, ms | longest delay, ms'
printf '\nA day in the model\n\n'
"${GO:-go}" test ./bandwidth -run '^$' -bench Day | sed -n '/^Benchmark/p'
exit "$failed"
