package experiment

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/experiment/probe"
)

// TestProbe: a program with a thread per visible CPU is sensitive. A program with a fixed number of threads
// is flexible, although it reads the number of CPUs.
func TestProbe(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // python3 may be a wrapper script
	if err != nil {
		t.Skipf("needs python3: %v", err)
	}
	threads := `
import os, threading
cpus, all = len(os.sched_getaffinity(0)), threading.Event()
for _ in range(NUMBER): threading.Thread(target=all.wait).start()
all.set()
`
	all := l.usable.Count()
	for _, test := range []struct {
		name, number string
		class        Verdict
		threads      []int // with all CPUs, and with a single CPU
	}{
		{"a thread for each CPU", "cpus", Sensitive, []int{all + 1, 2}},
		{"three threads", "3", Flexible, []int{4, 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := strings.ReplaceAll(threads, "NUMBER", test.number)
			w := workloadOf(time.Minute, strings.TrimSpace(string(python)), "-c", script)
			p, err := l.Probe(context.Background(), &w, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if p.Class != test.class || p.Starts[0].CPUs != all || p.Starts[1].CPUs != 1 {
				t.Errorf("%+v, want %s", p, test.class)
			}
			for i, s := range p.Starts {
				read := slices.ContainsFunc(s.Sources, func(s probe.Source) bool { return s.Name == "sched_getaffinity" && s.Asked > 0 })
				if s.Threads != test.threads[i] || !read {
					t.Errorf("with %d CPUs: %+v, want %d threads, and a read of the affinity", s.CPUs, s, test.threads[i])
				}
			}
		})
	}
}

// TestProbeSources: the probe records reads of files with the number of CPUs, also by child processes. A
// process counts as a thread.
func TestProbeSources(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	w := workloadOf(time.Minute, "sh", "-c", "cat /proc/cpuinfo /sys/devices/system/cpu/online >/dev/null; cat /proc/cpuinfo >/dev/null & wait")
	p, err := l.Probe(context.Background(), &w, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Source{{Name: "/proc/cpuinfo", Asked: 2}, {Name: "/sys/devices/system/cpu/online", Asked: 1}}
	for _, s := range p.Starts {
		if !slices.Equal(s.Sources, want) || s.Threads != 2 {
			t.Errorf("with %d CPUs: %+v, want %v, and two processes", s.CPUs, s, want)
		}
	}
	if p.Class != Flexible {
		t.Errorf("%+v, want flexible", p)
	}
	wrapped := workloadOf(time.Minute, "sh", "-c", "cat /proc/cpuinfo | cat | cat >/dev/null; exec cat /proc/stat")
	if p, err = l.Probe(context.Background(), &wrapped, time.Minute); err != nil || p.Starts[0].Threads != 1 || p.Starts[0].SourceNames() != "/proc/stat" {
		t.Errorf("%+v, %v: want the program that the script executes, not the commands before it", p, err)
	}
	endless := workloadOf(time.Minute, "sleep", "3600")
	p, err = l.Probe(context.Background(), &endless, 10*time.Millisecond)
	if want := map[bool]Verdict{true: Flexible, false: Undecided}; err != nil || p.Class != want[p.Starts[0].Settled && p.Starts[1].Settled] {
		t.Errorf("%+v, %v: want a killed program, and flexible if it had time to start", p, err)
	}
	failed := filepath.Join(t.TempDir(), "failed")
	busy := workloadOf(time.Minute, "sh", "-c", "exec sh -c 'exec 3>>"+failed+"; while :; do true </dev/null || echo failed >&3; done'")
	for tries := 1; ; tries++ { // on a loaded machine the program may pause so long that it seems settled
		if p, err = l.Probe(context.Background(), &busy, 10*time.Millisecond); err == nil && p.Class == Undecided && !p.Starts[0].Settled {
			break
		}
		if err != nil || tries == 20 {
			t.Fatalf("%+v, %v: want undecided, because the program opens files until its end", p, err)
		}
	}
	if text, err := os.ReadFile(failed); err != nil || len(text) > 0 {
		t.Errorf("%d bytes, %v: want no failed system call", len(text), err)
	}
	quiet := workloadOf(time.Minute, "sh", "-c", ":")
	if p, err = l.Probe(context.Background(), &quiet, time.Minute); err != nil || p.Class != Flexible || !strings.Contains(p.Why, "does not read the number of CPUs") {
		t.Errorf("%+v, %v: want flexible, because the program does not read the number of CPUs", p, err)
	}
}

// TestPredict: the verdict is undecided if the probe did not see the whole start. If the program already has
// more threads with more CPUs, it is sensitive.
func TestPredict(t *testing.T) {
	sources := []probe.Source{{Name: "/proc/cpuinfo", Asked: 1}}
	start := func(cpus, threads int, sources []probe.Source, settled bool) Start {
		return Start{CPUs: cpus, Seen: probe.Seen{Threads: threads, Sources: sources, Settled: settled}}
	}
	for name, test := range map[string]struct {
		all, single Start
		want        Verdict
	}{
		"more threads":                             {start(4, 5, sources, true), start(1, 2, sources, true), Sensitive},
		"more threads, still starting":             {start(4, 5, sources, false), start(1, 2, sources, false), Sensitive},
		"more threads, no source read":             {start(4, 5, nil, true), start(1, 2, nil, true), Flexible},
		"single CPU: still starting":               {start(4, 5, sources, true), start(1, 1, nil, false), Undecided},
		"single CPU: no source read, settled":      {start(4, 5, sources, true), start(1, 1, nil, true), Sensitive},
		"equal threads":                            {start(4, 5, sources, true), start(1, 5, sources, true), Flexible},
		"equal threads, all CPUs still starting":   {start(4, 1, sources, false), start(1, 1, sources, true), Undecided},
		"equal threads, single CPU still starting": {start(4, 1, sources, true), start(1, 1, sources, false), Undecided},
		"no source read, still starting":           {start(4, 1, nil, false), start(1, 1, nil, true), Undecided},
		"no thread yet":                            {start(4, 0, nil, false), start(1, 0, nil, false), Undecided},
		"no source read":                           {start(4, 1, nil, true), start(1, 1, nil, true), Flexible},
	} {
		p := Prediction{Starts: []Start{test.all, test.single}}
		if p.predict(); p.Class != test.want || p.Why == "" {
			t.Errorf("%s: %+v, want %s", name, p, test.want)
		}
	}
}

func TestBadProbes(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	for want, w := range map[string]Workload{
		"exit code 3: no input": workloadOf(time.Minute, "sh", "-c", "echo no input >&2; exit 3"),
		"no-such-program":       workloadOf(time.Minute, "no-such-program"),
		"needs a command":       {Command: []string{"true"}, Server: []string{"true"}},
	} {
		if _, err := l.Probe(context.Background(), &w, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", w.Command, err, want)
		}
	}
	w := workloadOf(time.Minute, "true")
	if _, err := l.Probe(context.Background(), &w, 0); !errors.Is(err, ErrBadWorkload) {
		t.Errorf("no time: %v, want ErrBadWorkload", err)
	}
}
