#!/usr/bin/env bash
# Measures the tables of docs/benchmarks/wysiwyg.md: scripts/wysiwyg.sh [stream|programs|joined|oversubscribed …], default all parts.
# Needs root and an idle machine.
#   CPU=1 RUNS=30 STREAM_RUNS=100   limit; runs of each setup; runs of the distribution
#   JOINED=500m OVERSUBSCRIBED=16   limit of two copies on a shared CPU; threads of a larger machine
#   WORK=100                        percent of the work of a run; 5 for a trial on a slow or busy machine
#   OUT=wysiwyg CANDOR=bin/candor   folder of the reports; the candor binary
#   WRITE_DOCS=1                    writes the tables and pictures into docs/
set -euo pipefail
cd "$(dirname "$0")/.."
cpu=${CPU:-1} runs=${RUNS:-30} joined=${JOINED:-500m} oversubscribed=${OVERSUBSCRIBED:-16}
work=${WORK:-100}
stream_runs=${STREAM_RUNS:-$((runs < 30 ? runs : 100))}
candor=${CANDOR:-bin/candor}
out=$(realpath -m "${OUT:-wysiwyg}")
all=quota,quota+threads,cpuset,candor
no_threads=quota,cpuset,candor # for programs whose number of threads has no argument
sources=$PWD/scripts/wysiwyg
built=$out/programs

fail() { echo "wysiwyg: $*" >&2; exit 2; }

# package prints the Debian package of a program.
package() {
	case $1 in
	javac) echo default-jdk-headless ;;
	nginx) echo nginx-light ;;
	xz) echo xz-utils ;;
	*) echo "$1" ;;
	esac
}

check() {
	[ "$(id -u)" = 0 ] || fail "root is required"
	[ "$work" -ge 1 ] || fail "WORK=$work: use 1 or more"
	[ "$runs" -ge 2 ] || fail "RUNS=$runs: use 2 or more"
	local missing=()
	for program in gcc javac python3 xz zstd sysbench stress-ng openssl nginx wrk; do
		command -v "$program" >/dev/null || missing+=("$(package "$program")")
	done
	[ ${#missing[@]} = 0 ] || fail "apt-get install --no-install-recommends ${missing[*]}"
}

build() {
	mkdir -p "$built"
	for program in stream fine; do
		gcc -O2 -fopenmp -o "$built/$program" "$sources/$program.c"
	done
	javac -d "$built" "$sources/Ratings.java"
	CGO_ENABLED=0 "${GO:-go}" build -o "$built/primes" ./scripts/wysiwyg/primes
	cp "$sources/pool.py" "$sources/nginx.conf" "$built"
	python=$(python3 -c 'import sys; print(sys.executable)') # not a wrapper script
	seq 1 "$(amount 900000)" | sed 's/.*/& & line of a text that is well compressed/' >"$built/text"
}

# amount scales an amount of work.
amount() { echo $((($1 * work + 99) / 100)); }

# compare NAME SETUPS RUNS FLAG... measures a program.
compare() {
	local name=$1 setups=$2 n=$3
	shift 3
	echo "--- $name"
	"$candor" compare --name "$name" --cpu "${limit:-$cpu}" --setups "$setups" -n "$n" --out "$out/$name" "$@"
}

# Figure 1: the distribution of a memory-bound program.
stream() { compare stream "$all" "$stream_runs" -- "$built/stream" "$(amount 100)"; }

# Figures 2 and 3: many programs.
programs() {
	compare openmp "$all" "$runs" -- "$built/fine" "$(amount 5000)"
	compare jvm "$no_threads" "$runs" -- java -cp "$built" Ratings "$(amount 6)"
	compare python "$no_threads" "$runs" -- "$python" "$built/pool.py" "$(amount 200)"
	compare go "$no_threads" "$runs" -- "$built/primes" "$(amount 3000000)"
	compare xz "$all" "$runs" -- xz -T"{threads}" --block-size=2MiB -1 -k -c "$built/text"
	compare zstd "$all" "$runs" -- zstd -T"{threads}" -q -9 -k -c "$built/text"
	compare sysbench "$all" "$runs" -- sysbench cpu --threads="{threads}" --time=0 --events="$(amount 2500)" run
	compare stress-ng "$all" "$runs" --metric 'ops=matrix +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +([0-9.]+)' --better higher -- \
		stress-ng --matrix "{threads}" --timeout 1 --metrics-brief --temp-path /dev/shm
	compare openssl "$all" "$runs" --metric 'rate=^sha256 +([0-9.]+)k' --better higher -- openssl speed -multi "{threads}" -seconds 1 -bytes 16384 -evp sha256
	compare nginx "$all" "$runs" --metric 'qps=Requests/sec: *([0-9.]+)' --better higher \
		--server "nginx -p '$built' -c nginx.conf -g 'daemon off; worker_processes {threads};'" --client 'wrk -t 1 -c 32 -d 1 http://127.0.0.1:18080/'
}

# Two copies with cpusets that share a CPU, with quotas, and with separate cpusets.
joined() { limit=$joined compare joined 2xquota,shared-fraction,2xcpuset,2xcandor "$runs" -- "$built/fine" "$(amount 2000)"; }

# The effect of a larger machine: threads for all its CPUs, under a small limit.
oversubscribed() { compare oversubscribed "cpuset,quota,quota+threads=$oversubscribed,candor" "$runs" -- "$built/fine" "$(amount 2000)"; }

# results_only drops the text after each table, and repeated empty lines.
results_only() { awk '/^#/ { after = 0 } /^\|/ { after = 1 } !after || /^\|/ || /^$/' | cat -s; }

# tables writes the results as Markdown. The page explains their columns, so results_only drops the legends.
tables() {
	local reports=()
	for name in stream openmp jvm python go xz zstd sysbench stress-ng openssl nginx; do
		[ ! -s "$out/$name/report.json" ] || reports+=("$out/$name/report.json")
	done
	if [ ${#reports[@]} -gt 1 ]; then
		printf '### Programs\n\n![programs: results by setup](../images/wysiwyg-programs.svg)\n\n'
		"$candor" report "${reports[@]}" -o markdown --out "$out/together" | results_only
	fi
	for name in stream joined oversubscribed; do
		[ -s "$out/$name/report.json" ] || continue
		printf '\n### %s\n\n![%s: results by setup](../images/wysiwyg-%s.svg)\n' "$name" "$name" "$name"
		"$candor" report "$out/$name/report.json" -o markdown | sed -e '/^# /d' -e '/^!\[/d' -e 's/^## /#### /' | results_only
	done
}

# write_docs writes the tables between the marks of the page, and copies the pictures.
write_docs() {
	cp "$out/together/programs.svg" docs/images/wysiwyg-programs.svg
	for name in stream joined oversubscribed; do
		cp "$out/$name/figure-time.svg" "docs/images/wysiwyg-$name.svg"
	done
	sed -i -e '/^<!-- measured -->$/,/^<!-- end -->$/{/^<!-- measured -->$/!{/^<!-- end -->$/!d}}' -e "/^<!-- measured -->\$/r $out/wysiwyg.md" docs/benchmarks/wysiwyg.md
}

[ $# -gt 0 ] || set -- stream programs joined oversubscribed
for part; do
	case $part in
	stream | programs | joined | oversubscribed) ;;
	*) fail "unknown part $part: use stream, programs, joined or oversubscribed" ;;
	esac
done
check
build
began=$SECONDS
for part; do "$part"; done
tables >"$out/wysiwyg.md"
[ -z "${WRITE_DOCS:-}" ] || write_docs
echo "took $((SECONDS - began)) s; tables in $out/wysiwyg.md"
