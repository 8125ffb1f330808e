package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/probe"
)

// A test binary is also candor's helper, a lab's guard, and a process with a lab that is killed. Arguments come first: a
// guard has the environment of the process whose guard it is.
func init() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == host.HelperCommand:
		fmt.Fprintln(os.Stderr, host.RunHelper(os.Args[2]))
		os.Exit(1)
	case len(os.Args) > 3 && os.Args[1] == probe.Command:
		fmt.Fprintln(os.Stderr, probe.Become(os.Args[2], os.Args[3:]))
		os.Exit(1)
	case len(os.Args) == 4 && os.Args[1] == GuardCommand:
		if err := RunGuard(os.Args[2], os.Args[3], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 1 && os.Getenv("EXPERIMENT_TEST_ROLE") == "sleeper":
		l, err := OpenLab(host.Options{StateDir: os.Getenv("EXPERIMENT_TEST_STATE")})
		if err == nil {
			w := workloadOf(time.Hour, "sh", "-c", "echo started >&2; sleep 3600")
			_, err = l.start(context.Background(), &w, &Setup{Kind: None}, "run-0")
		}
		if err == nil {
			err = l.openScratch(os.Getenv("EXPERIMENT_TEST_SCRATCH"), 1)
		}
		fmt.Println("ready", err, l.guard.Process.Pid)
		select {}
	}
}

func workloadOf(timeout time.Duration, command ...string) Workload {
	return Workload{Command: command, Timeout: timeout}
}

func openLab(t *testing.T) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	l, err := OpenLab(host.Options{StateDir: filepath.Join(t.TempDir(), "state"), Config: filepath.Join(t.TempDir(), "host.json")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, left := range leftOf(l.place) {
			t.Errorf("%s is left", left)
		}
	})
	return l
}

// leftOf lists what there is of a lab.
func leftOf(p place) (left []string) {
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + p.parent)
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", filepath.Base(p.dir)))
	for _, path := range append(append(groups, folders...), "/sys/fs/cgroup"+p.parent, p.dir, p.dir+scratchSuffix) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, path)
		}
	}
	return left
}

func setupsOf(t *testing.T, limit hybrid.Milli, names ...string) (setups []Setup) {
	t.Helper()
	for _, name := range names {
		s, err := ParseSetup(name, limit)
		if err != nil {
			t.Fatal(err)
		}
		setups = append(setups, s)
	}
	return setups
}

// Under each set-up a program sees the CPUs, and has the quota, that the set-up is about.
func TestSetups(t *testing.T) {
	l := openLab(t)
	seen, err := ParseMetric(".nproc")
	if err != nil {
		t.Fatal(err)
	}
	told, _ := ParseMetric(".threads")
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", `echo "{\"nproc\": $(OMP_NUM_THREADS= nproc), \"threads\": {threads}}"`),
		Setups:   setupsOf(t, 500, "none", "quota", "quota+threads", "quota+threads=3", "cpuset", "shared-fraction", "candor", "candor+topology=single-numa", "3xquota"),
		Rounds:   2, WarmUps: 1,
	}
	e.Workload.Metrics = []Metric{seen, told}
	stages := 0
	e.Progress = func(s Stage) {
		if stages++; s.Run != stages || s.Runs != 27 {
			t.Errorf("stage %d: %+v", stages, s)
		}
	}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	all := float64(l.usable.Count())
	for i, want := range [][2]float64{{all, all}, {all, all}, {all, 1}, {all, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {all, all}} {
		nproc, rounds := r.Values(i, ".nproc")
		threads, _ := r.Values(i, ".threads")
		if !slices.Equal(nproc, []float64{want[0], want[0]}) || !slices.Equal(threads, []float64{want[1], want[1]}) || len(rounds) != 2 {
			failed, why := r.Failures(i)
			t.Errorf("%v: nproc %v, threads %v; want %v twice (%d failed: %s)", e.Setups[i], nproc, threads, want, failed, why)
		}
	}
	if runs := len(r.Runs); runs != 3*12 {
		t.Errorf("%d runs, want 36: the shared fraction has two instances, 3xquota three", runs)
	}
	checkAgain(t, r)
}

// checkAgain writes a report, reads it, and writes it again.
func checkAgain(t *testing.T, r *Report) {
	t.Helper()
	var first, second bytes.Buffer
	if err := r.Write(&first); err != nil {
		t.Fatal(err)
	}
	again, err := ParseReport(first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&second); err != nil || first.String() != second.String() {
		t.Errorf("read again (%v) it is another report", err)
	}
}

// The quota of a set-up throttles, that of a cpuset as large as the limit does not.
func TestQuotaThrottles(t *testing.T) {
	l := openLab(t)
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
		Setups:   setupsOf(t, 1000, "none", "cpuset", "candor"), Rounds: 2,
	}
	e.Setups = append(e.Setups, setupsOf(t, 300, "quota")...)
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Compare(WallTime.Name)
	if c[0].Throttled != 0 || c[1].Throttled != 0 || c[2].Throttled != 0 || c[3].Throttled == 0 {
		t.Errorf("throttled %.2f, %.2f, %.2f, %.2f; want only the last", c[0].Throttled, c[1].Throttled, c[2].Throttled, c[3].Throttled)
	}
	if c[0].Against != nil || c[3].Against == nil || c[3].Against.Pairs != 2 {
		t.Errorf("against the first: %+v, %+v", c[0].Against, c[3].Against)
	}
	for _, run := range r.Runs {
		if run.CPU <= 0 {
			t.Errorf("%v used no CPU time: %+v", r.Setups[run.Setup], run)
		}
	}
}

// Runs that fail are results.
func TestFailures(t *testing.T) {
	l := openLab(t)
	missing, err := ParseMetric(`rate: (\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, script string
		metrics      []Metric
		want         string
	}{
		{"exit code", "echo no disk >&2; exit 3", nil, "exit code 3: no disk"},
		{"signal", "kill -9 $$", nil, "ended by signal killed"},
		{"no metric", "echo hello", []Metric{missing}, `metric "rate: (\\d+)": the output has no match`},
		{"too long", "sleep 3600 & sleep 3600", nil, "not ended after 300ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := Experiment{Workload: workloadOf(time.Minute, "sh", "-c", test.script), Setups: setupsOf(t, 500, "quota"), Rounds: 2}
			e.Workload.Metrics = test.metrics
			if test.name == "too long" {
				e.Workload.Timeout = 300 * time.Millisecond
			}
			r, err := e.Run(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			if n, why := r.Failures(0); n != 2 || why != test.want {
				t.Errorf("%d failed: %q, want 2: %q", n, why, test.want)
			}
			checkAgain(t, r)
		})
	}
}

// What a program writes much of does not fill the memory, and its end is read.
func TestOutput(t *testing.T) {
	l := openLab(t)
	m, err := ParseMetric(`rate: (\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", "echo rate: 1; yes | head -c 20000000; echo rate: 2"),
		Setups:   setupsOf(t, 0, "none"), Rounds: 2,
	}
	e.Workload.Metrics = []Metric{m}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if values, _ := r.Values(0, m.Name); !slices.Equal(values, []float64{2, 2}) {
		t.Errorf("%v, want 2 twice", values)
	}
}

// An interrupted experiment returns what was done so far.
func TestInterrupted(t *testing.T) {
	l := openLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := Experiment{Workload: workloadOf(time.Minute, "true"), Setups: setupsOf(t, 0, "none"), Rounds: 100}
	e.Progress = func(s Stage) {
		if s.Run == 4 {
			cancel()
		}
	}
	r, err := e.Run(ctx, l)
	if !errors.Is(err, context.Canceled) || !r.Stopped || len(r.Runs) != 3 {
		t.Errorf("%v, stopped %v, %d runs; want 3", err, r.Stopped, len(r.Runs))
	}
	checkAgain(t, r)
}

func TestBadExperiments(t *testing.T) {
	l := openLab(t)
	good := Experiment{Workload: workloadOf(time.Minute, "true"), Setups: setupsOf(t, 500, "quota"), Rounds: 2}
	for _, test := range []struct {
		name string
		bad  func(e *Experiment)
		want error
	}{
		{"no command", func(e *Experiment) { e.Workload.Command = nil }, ErrBadWorkload},
		{"no such command", func(e *Experiment) { e.Workload.Command = []string{"no-such-command"} }, fs.ErrInvalid},
		{"no timeout", func(e *Experiment) { e.Workload.Timeout = 0 }, ErrBadWorkload},
		{"one run", func(e *Experiment) { e.Rounds = 1 }, ErrBadWorkload},
		{"too many", func(e *Experiment) { e.Rounds = MaxRuns + 1 }, ErrBadWorkload},
		{"more than can be counted", func(e *Experiment) { e.Setups, e.Rounds = setupsOf(t, 500, "quota", "candor"), 1<<63-1 }, ErrBadWorkload},
		{"no set-up", func(e *Experiment) { e.Setups = nil }, ErrBadSetup},
		{"twice", func(e *Experiment) { e.Setups = append(e.Setups, e.Setups[0]) }, ErrBadSetup},
		{"too few CPUs", func(e *Experiment) { e.Setups = setupsOf(t, hybrid.MaxLimit, "cpuset") }, ErrTooSmall},
	} {
		e := good
		e.Setups = slices.Clone(good.Setups)
		test.bad(&e)
		_, err := e.Run(context.Background(), l)
		if exec := new(host.ExecError); test.want == fs.ErrInvalid && errors.As(err, &exec) {
			continue
		}
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// startSleeper starts a process with a lab in which something runs.
func startSleeper(t *testing.T) (process *os.Process, guard int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	folder, err := os.MkdirTemp("", "experiment-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "EXPERIMENT_TEST_ROLE=sleeper", "EXPERIMENT_TEST_STATE="+filepath.Join(t.TempDir(), "state"), "EXPERIMENT_TEST_SCRATCH="+folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	word := make([]byte, 64)
	n, _ := out.Read(word)
	if _, err := fmt.Sscanf(string(word[:n]), "ready <nil> %d", &guard); err != nil {
		t.Fatalf("it says %q", word[:n])
	}
	if left := leftOf(placeOf(cmd.Process.Pid)); len(left) < 4 {
		t.Fatalf("only %v is there while it runs", left)
	}
	return cmd.Process, guard
}

// When the process that has a lab is killed, its guard kills what runs there and removes all of it.
func TestKilled(t *testing.T) {
	process, guard := startSleeper(t)
	syscall.Kill(guard, syscall.SIGTERM) // as the end of a service does
	process.Kill()
	process.Wait()
	p := placeOf(process.Pid)
	deadline := time.Now().Add(30 * time.Second)
	for len(leftOf(p)) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := leftOf(p); len(left) > 0 {
		t.Errorf("%v is left 30 s after the end of its process", left)
	}
}

// Where its guard is killed, too, the next lab removes it.
func TestKilledWithGuard(t *testing.T) {
	process, guard := startSleeper(t)
	syscall.Kill(guard, syscall.SIGKILL)
	process.Kill()
	process.Wait()
	openLab(t)
	if left := leftOf(placeOf(process.Pid)); len(left) > 0 {
		t.Errorf("%v is left after the next lab was opened", left)
	}
}

// A guard opens no lab: that would have a guard, and so on without end.
func TestNoLabInGuard(t *testing.T) {
	l := openLab(t)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", l.guard.Process.Pid))
	if err != nil || !bytes.Contains(environment, []byte(guardVariable+"=1\x00")) {
		t.Errorf("the guard's environment (%v) has no %s", err, guardVariable)
	}
	t.Setenv(guardVariable, "1")
	if other, err := OpenLab(host.Options{StateDir: filepath.Join(t.TempDir(), "state")}); !errors.Is(err, ErrInGuard) {
		t.Errorf("%v, want ErrInGuard", err)
		if err == nil {
			other.Close()
		}
	}
}

// What the machine's containers have for themselves, and what is reserved, a lab leaves alone.
func TestLabBesideContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	machine := host.Options{
		StateDir: filepath.Join(t.TempDir(), "state"), Config: filepath.Join(t.TempDir(), "host.json"),
		Cgroup: cgroup.Options{Parent: fmt.Sprintf("/candor-experiment-test-%d", os.Getpid()), Driver: cgroup.Cgroupfs},
	}
	h, err := host.Open(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	defer h.Clear(context.Background())
	all, err := h.Usable()
	if err != nil || all.Count() < 2 {
		t.Skipf("%v, %v: needs two CPUs", all, err)
	}
	a := host.Allocation{
		Request: hybrid.Request{ID: "web", Limit: 1000},
		Spec:    host.Spec{Period: cgroup.DefaultPeriod, View: host.ViewAffinity, OnResize: "none"},
	}
	child, err := h.Start(context.Background(), a, host.Program{Path: "/bin/sleep", Args: []string{"sleep", "1000"}}, [3]*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLab(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if want := all.Minus(child.Grant.CPUs); l.usable != want {
		t.Errorf("the lab has %v, want %v", l.usable, want)
	}
	mask, _ := ParseMetric(`on (\d+)$`)
	e := Experiment{Workload: workloadOf(time.Minute, "sh", "-c", "echo on $(nproc)"), Setups: setupsOf(t, 500, "candor"), Rounds: 2}
	e.Workload.Metrics = []Metric{mask}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if values, _ := r.Values(0, mask.Name); !slices.Equal(values, []float64{1, 1}) {
		t.Errorf("%v, want 1 CPU twice", values)
	}
	if err := h.SetOptions(host.NodeOptions{Reserved: all.Minus(child.Grant.CPUs)}); err != nil {
		t.Fatal(err)
	}
	if other, err := OpenLab(machine); !errors.Is(err, ErrTooSmall) {
		t.Errorf("nothing left: %v, want ErrTooSmall", err)
		other.Close()
	}
}

// How a set-up does beside the first one does not depend on where it stands among the others.
func TestCompareOrder(t *testing.T) {
	report := func(order ...int) *Report {
		r := &Report{Metrics: []ReportMetric{{Name: "time"}}, Rounds: 12}
		for at, kind := range order {
			r.Setups = append(r.Setups, Setup{Kind: Kinds[kind]})
			for round := range r.Rounds {
				value := 10 + 5*float64(round*7%12) + float64(kind)*(1+0.1*float64(round*5%12))
				r.Runs = append(r.Runs, Run{Setup: at, Round: round, Values: map[string]float64{"time": value}})
			}
		}
		return r
	}
	one, other := report(0, 1, 2, 3).Compare("time"), report(0, 3, 2, 1).Compare("time")
	for i, j := range map[int]int{1: 3, 2: 2, 3: 1} {
		if a, b := one[i], other[j]; *a.Against != *b.Against || a.Spread != b.Spread || a.Against.P > 0.001 {
			t.Errorf("%v: %+v in place %d, %+v in place %d; want the same, and a small p", a.Setup, *a.Against, i, *b.Against, j)
		}
	}
}

// Rounds have each set-up once; the order is random, and the same for a seed.
func TestOrder(t *testing.T) {
	order := Order(5, 40, 1)
	different := 0
	for i, round := range order {
		sorted := slices.Sorted(slices.Values(round))
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4}) {
			t.Errorf("round %d: %v", i, round)
		}
		if i > 0 && !slices.Equal(round, order[i-1]) {
			different++
		}
	}
	if different < 30 {
		t.Errorf("only %d rounds differ from the one before", different)
	}
	if fmt.Sprint(order) != fmt.Sprint(Order(5, 40, 1)) || fmt.Sprint(order) == fmt.Sprint(Order(5, 40, 2)) {
		t.Error("the order is not the seed's")
	}
}

func TestParseSetup(t *testing.T) {
	for _, test := range []struct {
		text   string
		limit  hybrid.Milli
		want   Setup
		string string
	}{
		{"none", 1500, Setup{Kind: None}, "none"},
		{"quota", 1500, Setup{Kind: Quota, Limit: 1500}, "quota"},
		{"quota+threads", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 2}, "quota+threads"},
		{"quota+threads=8", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 8}, "quota+threads=8"},
		{"shared-fraction", 1500, Setup{Kind: SharedFraction, Limit: 1500}, "shared-fraction"},
		{"2xquota", 1500, Setup{Kind: Quota, Limit: 1500, Copies: 2}, "2xquota"},
		{"3xquota+threads=8", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 8, Copies: 3}, "3xquota+threads=8"},
		{"candor+topology=single-l3", 1500, Setup{Kind: Candor, Limit: 1500, Wish: hybrid.SingleL3}, "candor+topology=single-l3"},
		{"2xcandor+topology=whole-cores", 1500, Setup{Kind: Candor, Limit: 1500, Wish: hybrid.WholeCores, Copies: 2}, "2xcandor+topology=whole-cores"},
	} {
		s, err := ParseSetup(test.text, test.limit)
		if err != nil || s != test.want || s.String() != test.string {
			t.Errorf("%s: %+v %v, %v; want %+v", test.text, s, s, err, test.want)
		}
	}
	for _, text := range []string{"", "pinned", "quota=2", "quota+threads=0", "quota+threads=x", "quota+threads=99999", "quota+threads=", "shared-fraction",
		"1xquota", "0xquota", "1001xquota", "99999999999xquota", "2x", "2x2xquota", "candor=2", "candor+topology", "candor+topology=best", "quota+topology=single-l3"} {
		if _, err := ParseSetup(text, 2000); !errors.Is(err, ErrBadSetup) {
			t.Errorf("%q: %v, want ErrBadSetup", text, err)
		}
	}
}

// Copies need CPUs of their own under cpuset; under candor their fractions join.
func TestNeeds(t *testing.T) {
	for text, want := range map[string]int{
		"none": 1, "2xnone": 1, "quota": 2, "2xquota": 3, "cpuset": 2, "2xcpuset": 4, "candor": 2, "2xcandor": 3, "3xcandor": 5, "shared-fraction": 3,
	} {
		s, err := ParseSetup(text, 1500)
		if err != nil || s.needs() != want {
			t.Errorf("%s at 1500m: %d, %v; want %d", text, s.needs(), err, want)
		}
	}
	if s := (Setup{Kind: Candor, Limit: 600, Copies: 3}); s.needs() != 3 {
		t.Errorf("three of 600m need %d CPUs, want 3: no two fit on one", s.needs())
	}
}
