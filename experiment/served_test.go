package experiment

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// servedWorkload returns a workload with a server that listens on a socket. The server answers each client
// with the number of CPUs that it sees, and its argument.
func servedWorkload(t *testing.T, client string) Workload {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	script := `
import os, socket, sys
if os.path.exists(sys.argv[1]): os.remove(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
while True:
    c, _ = s.accept()
    c.sendall(b"server: %d threads: %s" % (len(os.sched_getaffinity(0)), sys.argv[2].encode()))
    c.close()
`
	w := workloadOf(time.Minute, "sh", "-c", client)
	w.Server = []string{"python3", "-c", script, filepath.Join(t.TempDir(), "socket"), "{threads}"}
	return w
}

// askServer returns a shell command that prints the server's answer and the number of CPUs that the client
// sees.
func askServer(w *Workload) string {
	return `python3 -c "import socket; s=socket.socket(socket.AF_UNIX); s.connect('` + w.Server[3] + `'); print(s.recv(99).decode())"; echo client: $(nproc)`
}

// TestServed: the limit applies to the server, and the metrics are read from the output of the client.
func TestServed(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	w := servedWorkload(t, "")
	w.Command[2] = askServer(&w)
	for _, text := range []string{`server=server: (\d+)`, `threads=threads: (\d+)`, `client=client: (\d+)`} {
		m, err := ParseMetric(text)
		if err != nil {
			t.Fatal(err)
		}
		w.Metrics = append(w.Metrics, m)
	}
	e := Experiment{Workload: w, Setups: setupsOf(t, 500, "quota", "candor"), Rounds: 2}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	all := float64(l.usable.Count())
	for i, want := range []map[string]float64{{"server": all, "threads": all, "client": all}, {"server": 1, "threads": 1}} {
		for metric, value := range want {
			if values, _ := r.Values(i, metric); !slices.Equal(values, []float64{value, value}) {
				_, why := r.Failures(i)
				t.Errorf("%v: %s %v, want %g twice (%s)", e.Setups[i], metric, values, value, why)
			}
		}
	}
	if r.Setups[0].Kind != Quota || r.ProgramName() != "python3" {
		t.Errorf("the program is %q, want the server", r.ProgramName())
	}
	checkRoundTrip(t, r)
}

// TestServerFails: the run fails with the reason if the server ends early or does not listen in time.
func TestServerFails(t *testing.T) {
	l := openLab(t)
	for script, want := range map[string]string{
		"echo no port >&2; exit 3": "the server ended before its client: exit code 3: no port",
		"exit 0":                   "exit code 0; run it in the foreground",
		"sleep 3600":               "the server does not listen after 300ms",
	} {
		w := workloadOf(300*time.Millisecond, "true")
		w.Server = []string{"sh", "-c", script}
		if !strings.HasPrefix(script, "sleep") {
			w.Timeout = time.Minute
		}
		e := Experiment{Workload: w, Setups: setupsOf(t, 500, "quota"), Rounds: 2}
		r, err := e.Run(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		if n, why := r.Failures(0); n != 2 || !strings.Contains(why, want) {
			t.Errorf("%s: %d failed, %q; want 2, %q", script, n, why, want)
		}
	}
}

func TestBadServed(t *testing.T) {
	l := openLab(t)
	w := workloadOf(time.Minute, "true")
	w.Server = []string{"sleep", "1000"}
	for _, setups := range [][]Setup{setupsOf(t, 500, "2xquota"), setupsOf(t, 500, "shared-fraction")} {
		e := Experiment{Workload: w, Setups: setups, Rounds: 2}
		if _, err := e.Run(context.Background(), l); !errors.Is(err, ErrBadSetup) {
			t.Errorf("%v: %v, want ErrBadSetup", setups, err)
		}
	}
	all := hybrid.Milli(1000 * l.usable.Count())
	e := Experiment{Workload: w, Setups: setupsOf(t, all, "candor"), Rounds: 2}
	if _, err := e.Run(context.Background(), l); !errors.Is(err, ErrTooSmall) {
		t.Errorf("all CPUs for the server: %v, want ErrTooSmall: no CPU remains for the client", err)
	}
	w.Server = []string{"no-such-server"}
	e.Workload = w
	if _, err := e.Run(context.Background(), l); err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("%v, want an error about the missing server", err)
	}
}
