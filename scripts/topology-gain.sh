#!/bin/sh
# Measures the gain of a topology policy for nginx under wrk: queries per second and mean response time. Needs root and an idle machine
# with several NUMA nodes. On a machine with a single NUMA node there is no gain, and the script measures nothing.
#   CPU           limit of nginx (default: half of a node's CPUs)
#   ROUNDS        default 10
#   SECONDS_EACH  default 10
#   OUT           directory for the report
#   ANYWAY=1      run on a single NUMA node too, to test the script
set -eu
cd "$(dirname "$0")/.."
candor=${CANDOR_BIN:-bin/candor}
said=$("$candor" topology | head -n 1)
nodes=$(echo "$said" | sed 's/.* \([0-9]*\) NUMA node.*/\1/')
cpus=$(echo "$said" | sed 's/.* \([0-9]*\) CPUs*$/\1/')
echo "$said"
if [ "$nodes" -lt 2 ] && [ -z "${ANYWAY:-}" ]; then
	echo "One NUMA node: all CPUs have the same distance to memory, so a topology policy gains nothing."
	exit 0
fi
for program in nginx wrk; do
	command -v $program >/dev/null || { echo "topology-gain: $program is not installed" >&2; exit 2; }
done
half=$((cpus / nodes / 2))
: "${CPU:=$((half > 1 ? half : 1))}" "${ROUNDS:=10}" "${SECONDS_EACH:=10}"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir" # nginx's workers run as another user
head -c 4096 /dev/zero | tr '\0' x >"$dir/page"
cat >"$dir/nginx.conf" <<-END
	daemon off;
	worker_processes auto;
	pid $dir/pid;
	error_log stderr error;
	events { worker_connections 4096; }
	http {
		access_log off;
		server { listen 127.0.0.1:18431; root $dir; }
	}
END
cat >"$dir/json.lua" <<-'END'
	done = function(summary, latency)
		io.write(string.format('{"qps": %.3f, "latency": %.6f}\n', summary.requests / summary.duration * 1e6, latency.mean / 1e6))
	end
END
"$candor" compare --cpu "$CPU" -n "$ROUNDS" ${OUT:+--out "$OUT"} \
	--setups quota,candor+topology=none,candor+topology=single-numa \
	--server "nginx -e stderr -c $dir/nginx.conf" \
	--client "wrk -t $CPU -c $((CPU * 32)) -d $SECONDS_EACH -s $dir/json.lua http://127.0.0.1:18431/page" \
	--metric queries-a-second=.qps --metric response-time=.latency --better queries-a-second=higher
