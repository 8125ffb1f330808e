# Two programs that are busy for 80 ms, eight times, with 0.4 s of rest.
for i in 1 2 3 4 5 6 7 8; do
	timeout 0.08 sh -c 'while :; do :; done' &
	timeout 0.08 sh -c 'while :; do :; done'
	wait
	sleep 0.4
done
