#!/bin/sh
# Demonstrates Candor on this machine: programs that see exactly their own
# CPUs. Takes about 15 seconds and cleans up. Usage: demo.sh [CANDOR]
set -u

candor=$(realpath "${1:-bin/candor}") || exit 2
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null; then
		echo "The demo creates cgroups and needs root: running sudo."
		exec sudo -- "$0" "$candor"
	fi
	echo "demo: cgroups need root; run the demo as root" >&2
	exit 2
fi

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
	bold='' dim='' plain=''
fi
work=$(mktemp -d) || exit 1
jobs=''

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() { # runs a candor command and shows it
	printf '%s$ candor %s%s\n' "$dim" "$*" "$plain"
	"$candor" "$@"
}
fail() {
	echo "demo: $*" >&2
	exit 1
}

# Ends the programs of the demo and releases their CPUs.
clean_up() {
	trap - EXIT
	for pid in $jobs; do kill "$pid" 2>/dev/null; done
	for pid in $jobs; do wait "$pid" 2>/dev/null; done
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A program that counts its CPUs, starts a worker for each, and counts again
# after a resize (SIGHUP).
cat >"$work/program" <<'PROGRAM'
#!/bin/sh
count() {
	printf '  %-12s nproc %s, sysconf %s, cpuinfo %s%s\n' "$1" "$(nproc)" "$(getconf _NPROCESSORS_ONLN)" \
		"$(grep -c ^processor /proc/cpuinfo)" \
		"$(command -v python3 >/dev/null && python3 -c 'import os; print(", Python", os.cpu_count() if not hasattr(os, "process_cpu_count") else os.process_cpu_count(), end="")' 2>/dev/null)"
}
count "$1"
[ "$2" = count ] && exit
trap 'count "$1"; touch "$2.again"' HUP
trap 'exec 2>/dev/null; kill $workers; wait $workers; exit 0' TERM INT
workers=''
for _ in $(seq "$(nproc)"); do
	while :; do :; done &
	workers="$workers $!"
done
touch "$2"
while :; do wait; done
PROGRAM
chmod +x "$work/program"

# start NAME FLAGS... runs the program under candor run in the background.
start() {
	name=$1
	shift
	printf '%s$ candor run --name %s %s -- program &%s\n' "$dim" "$name" "$*" "$plain"
	"$candor" run --name "$name" "$@" -- "$work/program" "$name" "$work/$name.up" &
	jobs="$jobs $!"
	await "$work/$name.up" $!
}

# await FILE PID waits until a program has created FILE. If candor run PID ends, the demo ends too: its error is on stderr.
await() {
	for _ in $(seq 300); do
		[ -e "$1" ] && return
		kill -0 "$2" 2>/dev/null || fail "the program has ended, or was refused"
		sleep 0.1
	done
	fail "waited 30 seconds for $1"
}

# Sizes that fit this machine. If possible, the growing program sees another CPU after its resize.
cpus=$(nproc)
some="$cpus CPUs" db=''
case $cpus in
1) some="1 CPU" web=0.4 grown=0.5 batch=0.5 ;;
2 | 3) web=1 grown=1.5 batch=0.5 ;;
4) web=1.5 grown=2.5 db=1 batch=0.5 ;;
*) web=1.5 grown=2.5 db=1 batch=1 ;;
esac

say "1. This machine has $some, and every program on it is told so, whatever its limit is:"
"$work/program" "a program" count

say "2. Now with Candor. A sensitive program sees what it has; flexible ones share the rest:"
start demo-web --cpu $web --on-resize signal:HUP
web_pid=$!
[ -n "$db" ] && start demo-db --cpu $db
start demo-batch --class flexible --cpu $batch

say "3. Who is where:"
show map --sample 0

say "4. All of them are busy. What each one got in 4 seconds (less where the machine does other work):"
# used NAME prints the time of day and the CPU time of a container, in seconds.
used() {
	echo "$(cut -d' ' -f1 /proc/uptime) $("$candor" inspect "$1" -o json | sed -n 's/.*"usageSeconds": *\([0-9.]*\).*/\1/p')"
}
names="demo-web ${db:+demo-db} demo-batch"
for name in $names; do used "$name" >"$work/$name.before"; done
sleep 4
for name in $names; do
	echo "$(cat "$work/$name.before") $(used "$name")" |
		awk -v name="$name" '{ printf "  %-12s %.2f CPUs\n", name, ($4 - $2) / ($3 - $1) }'
done

say "5. A container grows while it runs. Candor sends a signal, and the program counts its CPUs again:"
show resize demo-web --cpu $grown || fail "the resize was refused"
await "$work/demo-web.up.again" $web_pid
show ps

say "6. The programs end, and nothing is left:"
clean_up
jobs=''
show map --sample 0
