#!/bin/sh
# Prints the number of workers that nginx starts with "worker_processes auto".
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
# nginx logs "start worker processes" when its master process handles signals. After SIGQUIT, the master starts all workers before
# it quits.
workers=0
while read -r line; do
	case $line in
	*"start worker processes"*) kill -QUIT $! ;;
	*"start worker process "*) workers=$((workers + 1)) ;;
	esac
done <"$dir/log"
wait $! && echo "$workers"
