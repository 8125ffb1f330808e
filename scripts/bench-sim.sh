#!/usr/bin/env bash
# Measures the figures of docs/benchmarks/simulate.md: scripts/bench-sim.sh [decisions|sweep|nodes|month …], default all.
# TRACE names the trace; default: the Google trace beside the project, otherwise a generated trace. OUT is the directory for
# the results, default bench-sim.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-bench-sim}
traces=../shared/traces/google2011
if [ -d "$traces" ]; then trace=${TRACE:-google2011:$traces}; else trace=${TRACE:-synthetic:days=0.12}; fi
mkdir -p "$out"

# measured COMMAND runs a command and prints its duration and peak memory.
measured() {
	local peak=0 began=$SECONDS now
	"$@" &
	while kill -0 $! 2>/dev/null; do
		now=$(awk '/^VmHWM/ {print $2}' "/proc/$!/status" 2>/dev/null || true)
		peak=${now:-$peak}
		sleep 0.2
	done
	wait $!
	echo "took $((SECONDS - began)) s, at most $((peak / 1024)) MiB: $*"
}

simulate() { measured bin/candor simulate "$@"; }

# Replays run one after the other, because parallel replays distort the decision times.
decisions() {
	for algorithm in candor paper; do
		GOMAXPROCS=1 simulate --trace "$trace" --algorithm "$algorithm" --scheduler least,most,paper,candor --sensitive 0,0.5,1 --out "$out/decisions-$algorithm"
	done
}

# The paper's figures: optimized and default scheduler, strict and best-effort.
sweep() {
	simulate --trace "$trace" --sensitive 0:1:0.1 --policy strict,best-effort --out "$out/own"
	simulate --trace "$trace" --sensitive 0:1:0.1 --scheduler least --out "$out/least"
}

nodes() {
	for machines in 1000 12500 100000; do
		GOMAXPROCS=1 simulate --trace "synthetic:machines=$machines,days=0.02" --sensitive 0.5 --out "$out/nodes-$machines"
	done
}

month() {
	GOMAXPROCS=1 simulate --trace synthetic:machines=12500,days=29 --algorithm candor --out "$out/month"
}

echo "$(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r), $(go env GOVERSION), load $(cut -d' ' -f1 /proc/loadavg), $trace"
[ $# -gt 0 ] || set -- decisions sweep nodes month
for part; do
	case $part in
	decisions | sweep | nodes | month) echo "--- $part"; "$part" ;;
	*) echo "bench-sim: no part $part: want decisions, sweep, nodes, month" >&2; exit 2 ;;
	esac
done
