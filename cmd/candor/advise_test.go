package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/interference"
)

// TestAdvise: the report begins with the cheapest setting and the options that set it. --all adds the table.
func TestAdvise(t *testing.T) {
	file := recordingOf(t, 4000, true)
	code, out, errOut := command(t, "", "advise", file, "--period", "100ms")
	if code != 0 || errOut != "" || !strings.HasPrefix(out, "web: use a limit of ") || strings.Contains(out, "\nLIMIT ") {
		t.Fatalf("%d, %s\n%s", code, errOut, out)
	}
	code, all, _ := command(t, "", "advise", file, "--period", "100ms", "--all")
	if code != 0 || !strings.HasPrefix(all, out+"\nLIMIT ") {
		t.Errorf("--all: %d\n%s", code, all)
	}
	for _, want := range []string{
		", and class flexible. Expect throttling in 0.0 % of the periods, and delays of ", " at the 99th percentile (target: throttled<1%).\n  candor run --class flexible --cpu ",
		"\n  Kubernetes: limits cpu: ", "\n  cgroup v2: cpu.max ", "use class sensitive instead: 1 CPU of its own, which is all that it sees\n  candor run --cpu 1\n",
		"\nThe recording lasts 40s. The container used 0.20 CPUs on average, and at most 1 at once\n",
		"\nIt was recorded under a limit, throttled in 100.0 % of the periods, which hides its demand. All figures are lower bounds; record it without a limit\n",
		"\n1000m  -       sensitive  0.0 % ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if _, out, _ := command(t, "", "advise", file, "--group", "db", "--period", "1s", "--target", "throttled<10%"); strings.Contains(out, "hidden") || !strings.HasPrefix(out, "db: use a limit of ") ||
		!strings.Contains(out, "candor.dev/period: 1s") {
		t.Errorf("a group without a limit:\n%s", out)
	}
	if code, out, _ := command(t, "", "advise", file, "--period", "100ms", "--from", "1s", "--to", "36s", "--hops", "3"); code != 0 ||
		!strings.Contains(out, "\nDelays are those of a request through 3 such containers in a row, each under the limit, and of its answer on the way back\n") {
		t.Errorf("--from, --to and --hops 3: %d\n%s", code, out)
	}
	for form, start := range map[string]string{"svg": "<?xml", "png": "\x89PNG"} {
		if code, out, errOut := command(t, "", "advise", file, "--node-cpus", "8", "-o", form); code != 0 || !strings.HasPrefix(out, start) || form == "svg" && !strings.Contains(out, ">limits with burst, without limits: 40<") {
			t.Errorf("-o %s: %d, %s, %.20q", form, code, errOut, out)
		}
	}
	if _, out, _ := command(t, "", "advise", file, "--node-cpus", "8"); !strings.Contains(out, "\nA node of 8 CPUs, with the same number of containers for each recording:\nVARIANT ") || !strings.Contains(out, "\nwithout limits     40          -  ") {
		t.Errorf("a node:\n%s", out)
	}
}

// adviceJSON are the fields of candor advise -o json that the tests use.
type adviceJSON struct {
	Reports []struct {
		HiddenDemand bool
		Outcomes     []struct{ LimitMilli, ThrottledShare float64 }
		Cheapest     *struct {
			LimitMilli float64
			Meets      bool
		}
		Answer *struct {
			LimitMilli                  int
			Class                       string
			QuotaSeconds, PeriodSeconds float64
			SensitiveCPUs               int
		}
		TooShort         string
		RecordForSeconds float64
	}
	NodeCPUs int
	Fillings []struct{ Containers int }
}

// TestAdviseJSON: JSON has the same answer as the text.
func TestAdviseJSON(t *testing.T) {
	file := recordingOf(t, 4000, true)
	var data adviceJSON
	code, out, errOut := command(t, "", "advise", file, file, "-o", "json", "--period", "100ms", "--target", "delay-p99<5ms", "--node-cpus", "8")
	if err := json.Unmarshal([]byte(out), &data); err != nil || code != 0 || len(data.Reports) != 2 || data.NodeCPUs != 8 || len(data.Fillings) != 3 {
		t.Fatalf("%v, %d, %s, %s", err, code, errOut, out)
	}
	r := data.Reports[0]
	if !r.HiddenDemand || len(r.Outcomes) < 10 || data.Fillings[2].Containers != 40 || r.Cheapest == nil || !r.Cheapest.Meets || r.Answer == nil {
		t.Fatalf("%s", out)
	}
	if a := r.Answer; a.LimitMilli < 200 || float64(a.LimitMilli) != r.Cheapest.LimitMilli || a.Class != "flexible" || a.QuotaSeconds <= 0 || a.PeriodSeconds != 0.1 || a.SensitiveCPUs != 1 {
		t.Errorf("%+v", a)
	}
}

// TestAdviseTooShort: on a recording that is too short, candor advise gives no answer, prints how long to record, and exits with code 3.
func TestAdviseTooShort(t *testing.T) {
	file := sampleRecording(t, true)
	code, out, errOut := command(t, "", "advise", file, "--period", "100ms")
	want := "web: no answer, because the recording of 10s is too short: throttled<1% needs 299 windows of 100ms with work, and the recording has 100.\n" +
		"Record for 40s or longer: candor record -o " + file + "-2 --interval 10ms --duration 40s --container web\nThe recording lasts 10s. "
	if code != exitUndecided || !strings.HasPrefix(out, want) || strings.Contains(out, "candor run") || strings.Contains(out, "LIMIT ") {
		t.Errorf("%d\n%s\nwant\n%s", code, out, want)
	}
	if errOut != "candor advise: "+file+": too short for an answer: throttled<1% needs 299 windows of 100ms with work, and the recording has 100; record for 40s or longer\n" {
		t.Errorf("%s", errOut)
	}
	if _, out, _ := command(t, "", "advise", file, "--period", "100ms", "--all"); !strings.Contains(out, "\nLIMIT ") || !strings.Contains(out, " too short\n") {
		t.Errorf("--all:\n%s", out)
	}
	var data adviceJSON
	code, out, _ = command(t, "", "advise", file, "-o", "json", "--node-cpus", "8")
	if err := json.Unmarshal([]byte(out), &data); err != nil || code != exitUndecided || len(data.Reports) != 1 || data.Fillings != nil {
		t.Fatalf("%v, %d, %s", err, code, out)
	}
	if r := data.Reports[0]; r.Answer != nil || r.Cheapest != nil || r.TooShort == "" || r.RecordForSeconds != 40 {
		t.Errorf("%s", out)
	}
	if code, out, _ := command(t, "", "advise", file, "--node-cpus", "8", "-o", "svg"); code != exitUndecided || out != "" {
		t.Errorf("-o svg: %d, %.40s", code, out)
	}
}

// TestRecordCommand: the command for a longer recording selects the recorded group. Names come from the recording and are untrusted.
func TestRecordCommand(t *testing.T) {
	program := filepath.Join(t.TempDir(), "solver")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]string{
		"web":                  "--container web",
		"$(reboot)":            "--container '$(reboot)'",
		"/kubepods/web":        "--cgroup /kubepods/web",
		"/kubepods/$(reboot)":  "--cgroup '/kubepods/$(reboot)'",
		"/it's":                `--cgroup '/it'\''s'`,
		"sh bursts.sh":         "-- sh bursts.sh",
		"/usr/bin/solver -n 5": "-- /usr/bin/solver -n 5",
		"./solver":             "-- ./solver",
		"default/web/app":      "--container default/web/app",
		program:                "-- " + program,
		"sh -c $(reboot)":      "-- COMMAND",
		"make " + strings.Repeat("a", 94) + "…": "-- COMMAND",
		"web\x1b[2J\nx": "-- COMMAND",
	} {
		if got := recordCommand("a.usage", group, 20*time.Millisecond)(6 * time.Minute); got != "candor record -o a-2.usage --interval 20ms --duration 6m "+want {
			t.Errorf("%q: %q", group, got)
		}
	}
	file := filepath.Join(t.TempDir(), "a b.usage")
	second := strings.Replace(file, "b.", "b-2.", 1)
	if err := os.WriteFile(second, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := recordCommand(file, "web", time.Second)(time.Minute); !strings.HasPrefix(got, "candor record -o '"+strings.Replace(file, "b.", "b-3.", 1)+"' ") {
		t.Errorf("%s", got)
	}
}

// TestAdviseDifferentMachines: recordings of machines with different CPU counts need --node-cpus. Different
// CPU models cause a warning.
func TestAdviseDifferentMachines(t *testing.T) {
	on := func(model string, cpus int) string {
		return phasedRecording(t, record.Header{Interval: 10 * time.Millisecond, CPUs: cpus, Model: model}, "/pod")
	}
	a, b := on("Z80", 2), on("6502", 4)
	code, out, errOut := command(t, "", "advise", a, b)
	if code != 2 || out != "" || errOut != fmt.Sprintf("candor advise: %s is of a machine with 2 CPUs, %s of one with 4: use --node-cpus N\n", a, b) {
		t.Errorf("%d, %s%s", code, out, errOut)
	}
	code, out, errOut = command(t, "", "advise", a, b, "--node-cpus", "4", "--period", "100ms", "--target", "throttled<2%")
	if code != 0 || !strings.HasPrefix(out, fmt.Sprintf("%s was recorded on Z80, %s on 6502: a second of one's CPU time is not one of the other's\n", a, b)) {
		t.Errorf("%d, %s\n%s", code, errOut, out)
	}
	if !strings.Contains(out, "It was recorded under a limit, or that of the group above, /pod, throttled in 100.0 % of the periods") ||
		!strings.Contains(out, "\nThe group above, /pod, has a limit of 100m, which is less: raise that too\n") ||
		!strings.Contains(out, "\nDuring the recording, other processes used 23 % of the CPUs of this measurement; the largest that still runs is make (pid 4711) with 20 %, which can hide its demand\n") ||
		!strings.Contains(out, "\nIts use changes: 0.20 CPUs until 15s, 1.00 CPUs until 30s. ") {
		t.Errorf("parent group and phases:\n%s", out)
	}
}

// phasedRecording writes a recording of 30 s and returns its file. The group /web below the group above uses
// 0.2 CPUs, then 1 CPU. The group above has a limit of 100m. Other processes use 23 % of the CPUs.
func phasedRecording(t *testing.T, h record.Header, above string) string {
	t.Helper()
	const ms = time.Millisecond
	var text bytes.Buffer
	w, err := record.NewWriter(&text, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []record.Group{{Name: above, Quota: 10 * ms, Period: 100 * ms, Encloses: true}, {Name: above + "/web", Above: above}} {
		if _, err := w.Group(g, cgroup.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	var web cgroup.Usage
	for n := range uint64(3000) {
		web.CPU += 2 * ms
		if n >= 1500 {
			web.CPU += 8 * ms
		}
		w.Tick(time.Duration(n+1)*10*ms, []record.Reading{{Group: 0, Usage: cgroup.Usage{CPU: web.CPU, Periods: n / 10, Throttled: n / 10}}, {Group: 1, Usage: web}})
	}
	foreign := &interference.Report{CPUs: 2, UseMilli: 460, Largest: &interference.Process{PID: 4711, Name: "make", UseMilli: 400}}
	if err := errors.Join(w.Interference(foreign), w.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "usage")
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAdviseBadInput: bad input gives an error of a single line and exit code 2. If no setting reaches the
// target, the report names the nearest setting.
func TestAdviseBadInput(t *testing.T) {
	file := sampleRecording(t, true)
	for line, want := range map[string]string{
		file + " --target fast": `--target "fast": must be throttled<1%, delay-p50<1ms or delay-p99<5ms`,
		file + " --node-cpus 0": "--node-cpus 0: must be 1 to 4096",
		file + " --period 2s":   "--period 2s: must be 1ms to 1s",
		file + " --group x":     `--group "x": not in the recording; it has web, db`,
		"":                      "missing FILE; must be one recording of candor record or more",
		file + " -o svg":        "-o svg: the figure shows the containers of a node; use --node-cpus N, or several recordings",
		file + " --hops 0":      "--hops 0: must be 1 to 64",
		file + " --from 1h":     file + ": no such part of the recording: it begins at 1h, and the recording has 10s",
		file + " --risk 101":    "--risk 101: must be 0 to 100 (%)",
		"advise_test.go":        "advise_test.go: not a recording of version 1",
	} {
		code, out, errOut := command(t, "", append([]string{"advise"}, strings.Fields(line)...)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, "candor advise: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor advise %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
	// With a quota of 1 ms per 1 ms, a CPU that draws a slice of 5 ms uses up the quota.
	code, out, errOut := command(t, "", "advise", file, "--period", "1ms", "--target", "throttled<0.001%")
	if code != 2 || !strings.HasPrefix(out, "web: no setting meets throttled<0.001%. The nearest is a limit of 1000m, ") || !strings.HasPrefix(errOut, "candor advise: "+file+": nothing reaches throttled<0.001%; the nearest is a limit of 1000m, 1ms of each 1ms") {
		t.Errorf("out of reach: %d, %s\n%s", code, errOut, out)
	}
}
