package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A stretch is an interval in which a client is on.
type stretch struct{ from, to time.Duration }

// A traffic is a number of independent clients that are on and off for exponentially distributed times. While
// a client is on, it makes calls as fast as it can, one at a time. This is the Markov-modulated source of
// "Kubernetes Scheduling and Timescales". The same seed gives the same traffic.
type traffic struct {
	seed, clients   int
	on, off, length time.Duration

	between time.Duration // two calls of a client, as predicted: see withBetween
}

func (tr traffic) args() []string {
	return []string{strconv.Itoa(tr.seed), strconv.Itoa(tr.clients), tr.on.String(), tr.off.String(), tr.length.String()}
}

func parseTraffic(args []string) (tr traffic) {
	tr.seed, _ = strconv.Atoi(args[0])
	tr.clients, _ = strconv.Atoi(args[1])
	tr.on, _ = time.ParseDuration(args[2])
	tr.off, _ = time.ParseDuration(args[3])
	tr.length, _ = time.ParseDuration(args[4])
	return tr
}

// stretches returns the intervals in which each client is on.
func (tr traffic) stretches() [][]stretch {
	all := make([][]stretch, tr.clients)
	for i := range all {
		random := rand.New(rand.NewPCG(uint64(tr.seed), uint64(i)))
		next := func(mean time.Duration) time.Duration { return time.Duration(random.ExpFloat64() * float64(mean)) }
		for at := next(tr.off); at < tr.length; {
			end := min(at+next(tr.on), tr.length)
			all[i] = append(all[i], stretch{at, end})
			at = end + next(tr.off)
		}
	}
	return all
}

// clientsRole calls a server. Its arguments are SOCKET and a traffic. It prints the number of calls and their
// total duration in nanoseconds.
func clientsRole(args []string) int {
	var lock sync.Mutex
	var all sync.WaitGroup
	calls, took := 0, time.Duration(0)
	start := make(chan time.Duration)
	stretches := parseTraffic(args[1:]).stretches()
	for _, mine := range stretches {
		server, err := net.Dial("unix", args[0])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		all.Go(func() {
			from := <-start
			n, sum := callWhileOn(server, from, mine)
			lock.Lock()
			calls, took = calls+n, took+sum
			lock.Unlock()
		})
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until it is in its group
	from := monotonic()
	for range stretches {
		start <- from
	}
	all.Wait()
	fmt.Println(calls, int64(took))
	return 0
}

func callWhileOn(server net.Conn, start time.Duration, mine []stretch) (calls int, took time.Duration) {
	b := make([]byte, 1)
	for _, s := range mine {
		time.Sleep(start + s.from - monotonic())
		for began := monotonic(); began < start+s.to; {
			if err := pass(server, b); err != nil {
				panic(err)
			}
			now := monotonic()
			calls, took = calls+1, took+now-began
			began = now
		}
	}
	return calls, took
}

// serveRole is a server. Its arguments are PATH WORK WORKERS [SOCKET]. It answers each byte on the socket
// PATH with a byte, in order of arrival: a worker spends the CPU time WORK, and then calls the next server at
// SOCKET if there is one.
func serveRole(args []string) int {
	work, _ := time.ParseDuration(args[1])
	count, _ := strconv.Atoi(args[2])
	workers := make(chan bool, count)
	runtime.GOMAXPROCS(32) // a thread for each client
	listener, err := net.Listen("unix", args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	for {
		client, err := listener.Accept()
		if err != nil {
			return 1
		}
		var next net.Conn
		if len(args) > 3 {
			if next, err = net.Dial("unix", args[3]); err != nil {
				return 1
			}
		}
		go func() {
			runtime.LockOSThread()
			for b := make([]byte, 1); ; {
				if _, err := io.ReadFull(client, b); err != nil {
					return
				}
				workers <- true
				spinFor(threadTime, work)
				<-workers
				if next != nil && pass(next, b) != nil {
					return
				}
				if _, err := client.Write(b); err != nil {
					os.Exit(1)
				}
			}
		}()
	}
}

// pass sends a byte to a server and waits for its answer.
func pass(server net.Conn, b []byte) error {
	if _, err := server.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(server, b)
	return err
}

// callersRole makes CALLERS calls to a server at once, TIMES times at the interval EVERY. Its arguments are
// SOCKET CALLERS EVERY TIMES. Each time, it prints the durations of the calls in nanoseconds, the shortest
// first.
func callersRole(args []string) int {
	callers, _ := strconv.Atoi(args[1])
	every, _ := time.ParseDuration(args[2])
	times, _ := strconv.Atoi(args[3])
	servers := make([]net.Conn, callers)
	for i := range servers {
		var err error
		if servers[i], err = net.Dial("unix", args[0]); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until it is in its group
	start := monotonic() + every/2
	took := make([]int64, callers)
	for n := range times {
		due := start + time.Duration(n)*every
		time.Sleep(due - monotonic())
		var all sync.WaitGroup
		for i, server := range servers {
			all.Go(func() {
				if err := pass(server, make([]byte, 1)); err != nil {
					panic(err)
				}
				took[i] = int64(monotonic() - due)
			})
		}
		all.Wait()
		slices.Sort(took)
		fmt.Println(strings.Trim(fmt.Sprint(took), "[]"))
	}
	return 0
}
