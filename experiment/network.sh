# Usage: network.sh BYTES, in a network namespace of its own. BYTES is the size of the sockets' buffers.
set -e
ip link set lo up
unshare --net sleep infinity &
other=/proc/$!/ns/net
while [ "$(readlink $other)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add stress0 type veth peer name stress1 netns $!
ip addr add 10.0.0.1/24 dev stress0
ip link set stress0 up
nsenter --net=$other sh -c 'ip addr add 10.0.0.2/24 dev stress1; ip link set stress1 up; exec iperf3 -s' >/dev/null &
tries=0
while :; do
	# This fails while the server does not listen yet, or still serves the previous client.
	if iperf3 -c 10.0.0.2 -w $1 -n 510M >/dev/null; then
		tries=0
		continue
	fi
	tries=$((tries + 1))
	[ $tries -lt 400 ]
	sleep 0.05
done
