#!/usr/bin/env bash
# Installs the programs of the memory matrix (docs/view.md) that no other test needs, and prints the directory of those that are not from the
# distribution. It needs the network and, for the packages, root. Programs that are present are not installed again.
#   packages: redis-server, r-base-core, sysstat, htop
#   Python:   psutil, DuckDB, Dask, Ray, in a virtual environment
#   Go, Rust: gopsutil, sysinfo
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd "$(dirname "$0")/.."

cache=${CANDOR_VIEW_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/candor-view}
say() { echo "view-programs: $*" >&2; }

missing=()
for p in redis-server:redis-server Rscript:r-base-core mpstat:sysstat htop:htop; do
	command -v "${p%%:*}" >/dev/null || missing+=("${p##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
	say "installs ${missing[*]}"
	apt-get -qq update >&2
	apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || say "cannot install ${missing[*]}: their tests fail"
fi

mkdir -p "$cache/bin"
if [ ! -x "$cache/python/bin/python3" ]; then
	python3 -m venv "$cache/python"
fi
for p in psutil duckdb distributed ray; do # each on its own: a package without a wheel for this Python costs its tests only
	"$cache/python/bin/python3" -c "import $p" 2>/dev/null && continue
	say "installs $p"
	"$cache/python/bin/pip" -q install "$p" >&2 || say "cannot install $p: its tests fail"
done
ln -sfn "$cache/python/bin/python3" "$cache/bin/view-python"

(cd e2e/probes/testdata/gopsutil && GOWORK=off GOFLAGS='' CGO_ENABLED=0 go build -o "$cache/bin/view-gopsutil" .)
if command -v cargo >/dev/null; then
	(cd e2e/probes/testdata/sysinfo && CARGO_TARGET_DIR="$cache/target" cargo -q build --release --locked) &&
		cp "$cache/target/release/sysinfo-probe" "$cache/bin/view-sysinfo"
fi
echo "$cache/bin"
