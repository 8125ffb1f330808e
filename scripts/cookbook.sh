#!/usr/bin/env bash
# Measures the programs of docs/cookbook: scripts/cookbook.sh [PROGRAM…], default all programs whose packages are installed.
# The script installs nothing. It names the missing packages and skips their programs.
# Needs root and an idle machine, with more CPUs than the limit.
#   CPU=1 RUNS=15                  limit; runs of each setup
#   SETUPS=quota,cpuset,candor     setups of candor compare; the first is the baseline
#   CLASSIFY=1                     also measures the class with candor classify: several minutes for each program
#   WORK=100                       percent of the work of a run; 5 for a trial
#   OUT=cookbook                   directory of the reports
#   CANDOR=bin/candor GO=go PYTHON=/usr/bin/python3
#   DRY_RUN=1                      prints the candor commands and runs nothing
set -euo pipefail
unset MAKEFLAGS MFLAGS MAKELEVEL # of make cookbook
cd "$(dirname "$0")/.."
cpu=${CPU:-1} runs=${RUNS:-15} work=${WORK:-100}
setups=${SETUPS:-quota,cpuset,candor}
with_threads=${SETUPS:-quota,quota+threads,cpuset,candor} # for programs that accept a number of threads
candor=${CANDOR:-bin/candor} go=${GO:-go} python=${PYTHON:-/usr/bin/python3}
out=$(realpath -m "${OUT:-cookbook}")
sources=$PWD/scripts examples=$PWD/docs/examples
dry=${DRY_RUN:-}
programs=(jvm go node node-libuv python openmp numpy loader loader-less gpu postgresql postgresql-parallel nginx redis redis-io make cargo go-build pytest jest)
failed=() skipped=() measured=()
current=0 total=0

say() { echo "cookbook: $*" >&2; }
fail() { say "$@"; exit 2; }

# amount scales an amount of work.
amount() { echo $((($1 * work + 99) / 100)); }

# postgres_bin prints the directory of PostgreSQL's newest server.
postgres_bin() { find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1; }

# lacks succeeds if a program is not installed.
lacks() { ! type -P "$1" >/dev/null; }

# missing prints the Debian packages that a program of the cookbook needs and this machine lacks.
missing() {
	case $1 in
	jvm) if lacks javac; then echo default-jdk-headless; fi ;;
	go | go-build) if lacks "$go"; then echo golang-go; fi ;;
	node | node-libuv) if lacks node; then echo nodejs; fi ;;
	python | loader*) if lacks "$python"; then echo python3; fi ;;
	openmp) if lacks gcc; then echo gcc libc6-dev; fi ;;
	numpy)
		if ! "$python" -c 'import numpy' 2>/dev/null; then echo python3-numpy; fi
		if ! /sbin/ldconfig -p | grep -q libopenblas; then echo libopenblas0-pthread; fi
		;;
	postgresql*) if [ ! -x "$(postgres_bin)/postgres" ]; then echo postgresql; fi ;;
	nginx) if lacks nginx; then echo nginx-light; fi; if lacks wrk; then echo wrk; fi ;;
	redis*) if lacks redis-server; then echo redis-server; fi; if lacks redis-benchmark; then echo redis-tools; fi ;;
	make) if lacks make; then echo make; fi; if lacks gcc; then echo gcc libc6-dev; fi ;;
	cargo) if lacks cargo; then echo cargo; fi ;;
	pytest) if ! "$python" -c 'import pytest, xdist' 2>/dev/null; then echo python3-pytest-xdist; fi ;;
	jest) if lacks jest; then echo jest; fi ;;
	esac
}

# run executes a candor command, or prints it if DRY_RUN is set.
run() {
	if [ -n "$dry" ]; then
		printf '%q ' "$@"
		echo
	else
		"$@"
	fi
}

# measure NAME SETUPS FLAG… -- COMMAND… compares a program under the setups and classifies it. The flags are those of candor compare
# and candor classify.
measure() {
	local name=$1 list=$2 probe=(--probe) flags=0
	shift 2
	while [ "$flags" -lt $# ] && [ "${@:flags+1:1}" != -- ]; do flags=$((flags + 1)); done # a server has no --
	case " $* " in *" --server "*) probe=() ;; esac # the probe watches no servers
	unless_dry rm -rf "${out:?}/$name"
	save "$name/compare.txt" "$candor" compare --name "$name" --cpu "$cpu" --setups "$list" -n "$runs" --out "$out/$name" "$@" || return
	if [ -n "${CLASSIFY:-}" ]; then
		save "$name/class.txt" "$candor" classify "${probe[@]}" --cpu "$cpu" "$@" || [ $? = 3 ] # 3: undecided
	elif [ ${#probe[@]} -gt 0 ]; then
		save "$name/probe.txt" "$candor" classify --probe "${@:flags+1}" || say "no prediction for $name" # --probe has no --metric
	fi
}

# save FILE COMMAND… runs a command and also writes its output to a file.
save() {
	local file=$1
	shift
	if [ -n "$dry" ]; then
		run "$@"
		return
	fi
	mkdir -p "$(dirname "$out/$file")"
	"$@" | tee "$out/$file"
}

# unless_dry runs a command that prepares a measurement, unless DRY_RUN is set.
unless_dry() { [ -n "$dry" ] || "$@"; }

program_jvm() {
	unless_dry javac -d "$built" "$sources/wysiwyg/Ratings.java"
	measure jvm "$setups" -- java -cp "$built" Ratings "$(amount 6)"
}

program_go() {
	unless_dry env CGO_ENABLED=0 "$go" build -o "$built/primes" ./scripts/wysiwyg/primes
	measure go "$setups" -- "$built/primes" "$(amount 3000000)"
}

program_node() { measure node "$setups" -- node "$sources/cookbook/pool.js" workers "$(amount 2000)"; }
program_node-libuv() { measure node-libuv "$setups" -- node "$sources/cookbook/pool.js" libuv "$(amount 400)"; }
program_python() { measure python "$setups" -- "$python" "$sources/wysiwyg/pool.py" "$(amount 200)"; }
program_numpy() { measure numpy "$with_threads" -- "$python" "$sources/cookbook/matmul.py" "$(amount 100)"; }

# measure_loader NAME WORKERS measures the stand-in for a DataLoader.
measure_loader() {
	measure "$1" "$setups" --metric 'batches=batches per second: ([0-9.]+)' --metric 'p99=p99 ms: ([0-9.]+)' --better batches=higher \
		-- "$python" "$examples/loader.py" "$2" "$(amount 4)"
}

program_loader() { measure_loader loader cpus; }
program_loader-less() { measure_loader loader-less cpus-1; }

program_gpu() {
	measure gpu "$with_threads" --metric 'images=images per second: ([0-9.]+)' --metric 'p99=p99 ms: ([0-9.]+)' --better images=higher \
		-- "$python" "$examples/gpu.py" inline "$(amount 4)"
}

program_openmp() {
	unless_dry gcc -O2 -fopenmp -o "$built/fine" "$sources/wysiwyg/fine.c"
	measure openmp "$with_threads" -- "$built/fine" "$(amount 5000)"
}

# as_nobody runs a command as the user nobody: PostgreSQL refuses to run as root.
as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }

# create_database creates a database of pgbench, once. The server of a measurement continues with the same data, and is killed after
# each run.
create_database() {
	bin=$(postgres_bin)
	data=$built/postgresql
	if [ -f "$built/database" ]; then return; fi
	rm -rf "$data"
	install -d -o nobody -g nogroup -m 700 "$data" "$built/socket"
	as_nobody "$bin/initdb" -D "$data" -U bench -A trust -E UTF8 --locale=C --no-sync >"$built/initdb.log"
	control_database start
	"$bin/createdb" -h "$built/socket" -U bench bench
	"$bin/pgbench" -h "$built/socket" -U bench -i -q -s "$(amount 10)" bench 2>>"$built/initdb.log"
	control_database stop
	touch "$built/database"
}

# control_database starts or stops the server outside of a measurement.
control_database() {
	as_nobody "$bin/pg_ctl" "$1" -w -s -D "$data" -l "$data/log" -o "-c listen_addresses= -k $built/socket"
}

# measure_database NAME FLAGS measures transactions per second of pgbench with these flags.
measure_database() {
	local ready="for i in \$(seq 100); do $bin/pg_isready -q -h $built/socket && break; sleep 0.1; done"
	measure "$1" "$setups" --metric 'tps=tps = ([0-9.]+)' --better higher \
		--server "exec setpriv --reuid nobody --regid nogroup --clear-groups $bin/postgres -D $data -c listen_addresses= -k $built/socket" \
		--client "$ready; exec $bin/pgbench -h $built/socket -U bench -n -T 3 $2 bench"
}

program_postgresql() {
	bin=/usr/lib/postgresql/15/bin data=$built/postgresql
	unless_dry create_database
	measure_database postgresql '-S -c 8 -j 2'
}

# The query reads a whole table, so the planner uses max_parallel_workers_per_gather workers.
write_query() { echo 'SELECT sum(abalance), max(bid) FROM pgbench_accounts;' >"$built/parallel.sql"; }

program_postgresql-parallel() {
	bin=/usr/lib/postgresql/15/bin data=$built/postgresql
	unless_dry create_database
	unless_dry write_query
	measure_database postgresql-parallel "-f $built/parallel.sql -c 1"
}

program_nginx() {
	unless_dry cp "$sources/wysiwyg/nginx.conf" "$built"
	measure nginx "$setups" --metric 'qps=Requests/sec: *([0-9.]+)' --better higher \
		--server "exec nginx -p $built -c nginx.conf -g 'daemon off; worker_processes auto;'" \
		--client 'wrk -t 1 -c 32 -d 2 http://127.0.0.1:18080/'
}

# measure_redis NAME REQUESTS FLAGS measures GET requests per second of a Redis server with these flags.
measure_redis() {
	measure "$1" "$setups" --metric 'rps="GET","([0-9.]+)"' --better higher \
		--server "exec redis-server --port 0 --unixsocket $built/redis.sock --dir $built --save '' --appendonly no $3" \
		--client "redis-benchmark -s $built/redis.sock -n $(amount "$2") -c 32 -t get --csv"
}

program_redis() { measure_redis redis 100000 '--io-threads 1'; }
# The I/O threads wait in a loop: with fewer CPUs than threads, a request can take much longer.
program_redis-io() { measure_redis redis-io 30000 '--io-threads {threads} --io-threads-do-reads yes'; }

# functions N prints N C functions.
functions() {
	local i
	for ((i = 0; i < $1; i++)); do
		echo "double f$i(double *a, int n) { double s = $i; for (int i = 0; i < n; i++) s += a[i] * a[(i + $i) % n] / (s + i); return s; }"
	done
}

write_c_files() {
	local i
	mkdir -p "$built/make"
	for ((i = 0; i < 12; i++)); do functions "$(amount 25)" >"$built/make/part$i.c"; done
	# shellcheck disable=SC2016 # variables of make
	printf 'all: %s\n%%.o: %%.c\n\t@gcc -O2 -c -o $@ $<\nclean:\n\t@rm -f *.o\n.PHONY: all clean\n' "$(seq -f 'part%g.o' -s ' ' 0 11)" >"$built/make/Makefile"
}

program_make() {
	unless_dry write_c_files
	measure make "$setups" -- sh -c "make -s -C $built/make clean && make -s -C $built/make -j\$(nproc)"
}

write_crates() {
	local i j
	mkdir -p "$built/cargo"
	printf '[workspace]\nmembers = ["part*"]\nresolver = "2"\n' >"$built/cargo/Cargo.toml"
	for ((i = 0; i < 6; i++)); do
		mkdir -p "$built/cargo/part$i/src"
		printf '[package]\nname = "part%d"\nversion = "0.1.0"\nedition = "2021"\n' "$i" >"$built/cargo/part$i/Cargo.toml"
		for ((j = 0; j < $(amount 20); j++)); do
			echo "pub fn f$j(a: &[u64]) -> Vec<String> { a.iter().filter(|x| *x % 7 != $j).map(|x| format!(\"{} {}\", x, $j)).collect() }"
		done >"$built/cargo/part$i/src/lib.rs"
	done
}

program_cargo() {
	unless_dry write_crates
	measure cargo "$setups" -- sh -c "cd $built/cargo && rm -rf target && exec cargo build -q --offline"
}

write_go_packages() {
	local i j
	mkdir -p "$built/go"
	printf 'module example.com/parts\n\ngo 1.19\n' >"$built/go/go.mod"
	for ((i = 0; i < 8; i++)); do
		mkdir -p "$built/go/part$i"
		{
			echo "package part$i"
			for ((j = 0; j < $(amount 200); j++)); do
				echo "func F$j(a []int) (s int) { for i, x := range a { if x%7 != $j { s += x * a[(i+$j)%len(a)] / (s*s + 1) } }; return s }"
			done
		} >"$built/go/part$i/part.go"
	done
}

# A new constant in each package makes go build compile it again, while the standard library stays in the cache.
program_go-build() {
	unless_dry write_go_packages
	measure go-build "$setups" -- env GOCACHE="$built/gocache" GOTOOLCHAIN=local GOFLAGS= sh -c \
		"cd $built/go && for p in part*; do echo \"package \$p; const Salt = \\\"\$(date +%s%N)\\\"\" >\$p/salt.go; done; exec $go build ./..."
}

write_python_tests() {
	mkdir -p "$built/pytest"
	cat >"$built/pytest/test_primes.py" <<-END
		import pytest


		@pytest.mark.parametrize("part", range($(amount 60)))
		def test_primes(part):
		    numbers = range(part * 1000 + 2, part * 1000 + 1002)
		    assert sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in numbers) > 0
	END
}

program_pytest() {
	unless_dry write_python_tests
	measure pytest "$setups" -- env PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -n auto -p no:cacheprovider "$built/pytest"
}

write_javascript_tests() {
	local i
	mkdir -p "$built/jest"
	echo '{"name": "tests", "version": "1.0.0"}' >"$built/jest/package.json"
	for ((i = 0; i < 16; i++)); do
		echo "test('sum', () => { let s = 0; for (let i = 0; i < $(amount 50000000); i++) s += i % 7; expect(s).toBeGreaterThan(0); });" >"$built/jest/part$i.test.js"
	done
}

program_jest() {
	unless_dry write_javascript_tests
	measure jest "$setups" -- jest --silent --rootDir "$built/jest"
}

# measure_program measures a program of the cookbook and shows the progress.
measure_program() {
	local program=$1 packages
	current=$((current + 1))
	if [ -z "$dry" ]; then
		packages=$(missing "$program" | xargs)
		if [ -n "$packages" ]; then
			skipped+=("$program: apt-get install --no-install-recommends $packages")
			return
		elif [ "$program" = jest ] && [ "$(nproc)" -lt 3 ]; then
			skipped+=("jest: needs 3 CPUs, because it starts a worker less than it sees CPUs, and at least 1")
			return
		elif [ "$program" = gpu ] && ! "$python" -c 'import torch; exit(not torch.cuda.is_available())' 2>/dev/null; then
			skipped+=("gpu: needs PyTorch and a GPU")
			return
		fi
		say "[$current/$total] $program, after $((SECONDS / 60)) min"
	fi
	# In a condition, set -e would have no effect in the function.
	set +e
	(set -e; "program_$program")
	local code=$?
	set -e
	case $code in
	0) measured+=("$program") ;;
	130)
		summary
		exit 130
		;;
	*) failed+=("$program") ;;
	esac
}

# summary prints the table of all reports, the verdicts, and the programs without a result.
summary() {
	local program reports=()
	for program in "${measured[@]}"; do reports+=("$out/$program/report.json"); done
	if [ ${#reports[@]} -gt 1 ]; then
		"$candor" report "${reports[@]}" --out "$out/together"
		"$candor" report "${reports[@]}" -o markdown >"$out/cookbook.md"
	fi
	echo
	for program in "${measured[@]}"; do
		sed "/^$/,\$d; s/^/$program: /" "$out/$program/compare.txt"
		grep -hs -e '^class: ' -e '^the probe ' "$out/$program/class.txt" "$out/$program/probe.txt" | sed "s/^/$program: /" || true
	done
	for program in "${failed[@]}"; do echo "$program: failed"; done
	for program in "${skipped[@]}"; do echo "skipped $program"; done
	say "${#measured[@]} measured, ${#failed[@]} failed, ${#skipped[@]} skipped, in $((SECONDS / 60)) min; reports in $out"
}

# clean_up stops a database that a killed server left behind, which also frees its shared memory, and removes the built programs.
clean_up() {
	if [ -f "$built/postgresql/postmaster.pid" ]; then
		bin=$(postgres_bin) data=$built/postgresql
		{ control_database start && control_database stop; } >/dev/null 2>&1 || true
	fi
	rm -rf "$built"
}

[ $# -gt 0 ] || set -- "${programs[@]}"
for program; do
	case " ${programs[*]} " in
	*" $program "*) ;;
	*) fail "unknown program $program: use $(printf '%s, ' "${programs[@]}" | sed 's/, $//')" ;;
	esac
done
[[ $work =~ ^[1-9][0-9]*$ ]] || fail "WORK=$work: use a percentage of 1 or more"
[[ $runs =~ ^([2-9]|[1-9][0-9]+)$ ]] || fail "RUNS=$runs: use 2 or more"
total=$#
if [ -n "$dry" ]; then
	built=/tmp/cookbook
	for program; do measure_program "$program"; done
	exit 0
fi
[ "$(id -u)" = 0 ] || fail "root is required"
command -v "$candor" >/dev/null || fail "no $candor: run make build, or set CANDOR"
built=$(mktemp -d -t cookbook.XXXXXX) # short: the paths of sockets have at most 107 characters
chmod 755 "$built"
trap clean_up EXIT
for program; do measure_program "$program"; done
if [ ${#measured[@]} = 0 ] && [ ${#failed[@]} = 0 ]; then
	printf 'cookbook: skipped %s\n' "${skipped[@]}" >&2
	exit 2
fi
summary
[ ${#failed[@]} = 0 ]
