#!/bin/sh
# How many workers nginx starts with "worker_processes auto".
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkfifo "$dir/log"
cat >"$dir/nginx.conf" <<CONF
daemon off;
worker_processes auto;
pid $dir/pid;
error_log stderr notice;
events {}
CONF
"${1:-nginx}" -p "$dir" -c "$dir/nginx.conf" 2>"$dir/log" &
# The first line about workers comes when the master can be told to quit; it starts them all before it does.
workers=0
while read -r line; do
	case $line in
	*"start worker processes"*) kill -QUIT $! ;;
	*"start worker process "*) workers=$((workers + 1)) ;;
	esac
done <"$dir/log"
wait $! && echo "$workers"
