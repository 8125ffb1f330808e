#!/usr/bin/env bash
# Runs go test and repeats failed tests once: scripts/go-test.sh [--subtests] [FLAG...] ./PACKAGE...
#
# The repetition runs the failed test functions, or with --subtests the failed subtests, and nothing else. The last lines name
# each of them. A test that passes only the second time does not fail the run, but it is a defect with a cause to find.
# Nothing is repeated after a failed build, a panic, more than five failures, or a failure outside of any test.
#
# CANDOR_REPEATED=FILE also appends the names of tests that passed the second time to FILE.
set -euo pipefail

tools=$(cd "$(dirname "$0")/../tools" && pwd)
gotestsum=$tools/../bin/tools/gotestsum
whole=--rerun-fails-run-root-test
if [ "${1:-}" = --subtests ]; then
	whole=
	shift
fi
flags=() packages=()
for argument; do
	case $argument in
	./*) packages+=("$argument") ;;
	*) flags+=("$argument") ;;
	esac
done
go=${GO:-go}
"$go" build -C "$tools" -o "$gotestsum" gotest.tools/gotestsum
[[ $go != */* ]] || PATH=$(cd "$(dirname "$go")" && pwd):$PATH # gotestsum starts go by its name

report=$(mktemp)
trap 'rm -f "$report"' EXIT
code=0
"$gotestsum" --no-color --format=pkgname-and-test-fails --format-icons=text --hide-summary=all \
	--rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-report="$report" $whole --packages="${packages[*]}" -- "${flags[@]}" || code=$?

# failed COUNT prints the tests that failed COUNT times, one line "PACKAGE TEST" for each test. It omits the parents of failed subtests.
failed() {
	sed -n "s/: [0-9]* runs, $1 failures\$//; T; s/\.\(Test\|Fuzz\|Example\)/ \1/p" "$report" | awk '
		{ names[NR] = $0 }
		END {
			for (i = 1; i <= NR; i++) {
				leaf = 1
				for (j = 1; j <= NR; j++) if (index(names[j], names[i] "/") == 1) leaf = 0
				if (leaf) print names[i]
			}
		}'
}

if grep -q '\.: ' "$report"; then
	sed -n 's/^\(.*\)\.: .*/--- failed outside of any test: \1/p' "$report"
	[ $code != 0 ] || code=1
fi
failed 2 | sed 's/^/--- failed twice: /'
failed 1 | sed 's/^/--- failed once, then passed: /'
if [ -n "${CANDOR_REPEATED:-}" ]; then
	failed 1 >>"$CANDOR_REPEATED"
fi
exit $code
