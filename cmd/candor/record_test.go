package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/interference"
)

// TestRecordBadInput: bad input gives an error of a single line and exit code 2, and no file is created.
func TestRecordBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "usage")
	for flags, want := range map[string]string{
		"":                                "missing target; must be one of --cgroup, --pid, --container, --all and -- COMMAND",
		"--all --pid 1":                   "2 targets: must be one of --cgroup, --pid, --container, --all and -- COMMAND",
		"--all -- true":                   "2 targets: must be one of",
		"--all --interval 999us":          "--interval 999µs: must be 1ms to 10s",
		"--all --interval 11s":            "--interval 11s: must be 1ms to 10s",
		"--all --duration -1s":            "--duration -1s: must be 0 or more",
		"--cgroup web":                    `--cgroup: cgroup path "web": must be a clean path`,
		"--cgroup /no-such-group/web":     "cgroup /no-such-group/web: no such group",
		"--pid 0":                         "--pid 0: ",
		"--container no-such-container-x": `--container "no-such-container-x": no such container: candor audit --all lists the running containers; or use --cgroup PATH or --pid N`,
	} {
		args := append([]string{"record", "-o", file, "--state-dir", t.TempDir()}, strings.Fields(flags)...)
		code, out, errOut := command(t, "", args...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, "candor record: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor record %s: code %d, %q, %q; want %q", flags, code, out, errOut, want)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("candor record %s: created the file", flags)
		}
	}
	if code, _, errOut := command(t, "", "record", "--all"); code != 2 || errOut != "candor record: missing --output; must be the file to write\n" {
		t.Errorf("code %d, %q", code, errOut)
	}
}

// TestRecordContainer: --container finds the containers of Candor and of the engines, by name, pod, ID or the beginning of the
// ID. The recording has the display name.
func TestRecordContainer(t *testing.T) {
	const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789a"
	own, pod := host.Grant{}, host.Grant{Engine: host.Engine{Name: "default/shop/web", Cgroup: "/kubepods/pod1/a"}}
	own.ID, pod.ID = "solver", "shop.web-1"
	s := &host.Snapshot{Grants: []host.Grant{own, pod}}
	foreign := []audit.Container{
		{Name: "db", ID: "0aaaa" + digits, Group: "/docker/0aaaa" + digits},
		{Name: "solver", ID: "0bbbb" + digits, Group: "/docker/0bbbb" + digits},
		{Name: "0cccc" + digits[:7], ID: "0cccc" + digits, Group: "/docker/0cccc" + digits},
		{Name: "test/shop/web", ID: "0dddd" + digits, Group: "/kubepods/pod2/0dddd" + digits},
		{Name: "test/shop/log", ID: "0eeee" + digits, Group: "/kubepods/pod2/0eeee" + digits},
	}
	for name, want := range map[string]record.Target{
		"solver":           {Name: "solver", Group: "solver"}, // an ID of Candor comes first
		"default/shop/web": {Name: "default/shop/web", Group: "/kubepods/pod1/a"},
		"db":               {Name: "db", Group: foreign[0].Group},
		foreign[0].ID:      {Name: "db", Group: foreign[0].Group},
		"0aaaa":            {Name: "db", Group: foreign[0].Group},
		"0bbbb":            {Name: foreign[1].ID, Group: foreign[1].Group}, // another container has its name
		"0cccc":            {Name: foreign[2].Name, Group: foreign[2].Group},
		"shop/log":         {Name: "test/shop/log", Group: foreign[4].Group},
	} {
		if got, err := targetNamed(s, foreign, name); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"web":  `"web" is the name of 2 containers: use one of default/shop/web, test/shop/web`,
		"shop": `"shop" is the name of 3 containers: use one of default/shop/web, test/shop/web, test/shop/log`,
		"0aa":  `--container "0aa": no such container`, // too short for the beginning of an ID
	} {
		if got, err := targetNamed(s, foreign, name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, want)
		}
	}
	if len(s.Grants) != 2 {
		t.Errorf("the snapshot has %d containers, want 2", len(s.Grants))
	}
}

// sampleRecording writes a recording of 10 s and returns its file. The group web uses 20 of each 100 ms and
// is throttled, db uses 1 ms. If whole is false, the recording has no end.
func sampleRecording(t *testing.T, whole bool) string {
	t.Helper()
	return recordingOf(t, 1000, whole)
}

// recordingOf writes a recording as sampleRecording does, with a given number of readings.
func recordingOf(t *testing.T, readings int, whole bool) string {
	t.Helper()
	var text bytes.Buffer
	const ms = time.Millisecond
	w, err := record.NewWriter(&text, record.Header{Interval: 10 * ms, Start: time.Unix(1e9, 0).UTC(), CPUs: 2, Kernel: "6.18"})
	if err != nil {
		t.Fatal(err)
	}
	var web, db cgroup.Usage
	for _, g := range []record.Group{{Name: "db"}, {Name: "web", Quota: 20 * ms, Period: 100 * ms}} {
		if _, err := w.Group(g, cgroup.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range readings {
		if n%10 < 2 {
			web.CPU += 10 * ms
		}
		if n%10 == 9 {
			web.Periods++
			web.Throttled++
			web.ThrottledTime += 30 * ms
			db.CPU += ms
		}
		w.Tick(time.Duration(n+1)*10*ms, []record.Reading{{Group: 0, Usage: db}, {Group: 1, Usage: web}})
		if n%100 == 99 {
			w.Cost(record.Cost{CPU: time.Duration(n) * 100 * time.Microsecond})
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if whole {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "usage")
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestUsageWarning: candor usage begins with the warning about other processes, which JSON also has.
func TestUsageWarning(t *testing.T) {
	file := phasedRecording(t, record.Header{Interval: 10 * time.Millisecond, CPUs: 2}, "/pod")
	const want = "Warning: other processes used 23 % of the CPUs of this measurement; the largest that still runs is make (pid 4711) with 20 %\n30s from "
	if code, out, errOut := command(t, "", "usage", file); code != 0 || !strings.HasPrefix(out, want) {
		t.Errorf("%d, %s\n%s", code, errOut, out)
	}
	var data struct{ Interference interference.Report }
	_, out, _ := command(t, "", "usage", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &data); err != nil || data.Interference.UseMilli != 460 || data.Interference.Largest.PID != 4711 {
		t.Errorf("%v, %s", err, out)
	}
}

const wantUsage = `10s from 2001-09-09T01:46:40Z on, a reading every 10ms; 2 CPUs, Linux 6.18. Recording took 1 % of a CPU
GROUP  WINDOW  WINDOWS  MEAN  P50   P99   PEAK  PEAK/MEAN  BURSTINESS
web    10ms    1000     0.20  0     1.00  1.00  5.00       2.00
       100ms   100      0.20  0.20  0.20  0.20  1.00       0
       1s      10       0.20  0.20  -     0.20  1.00       0
       5s      2        0.20  0.20  -     0.20  1.00       0
web: limit 0.20 CPUs, 20ms of each 100ms
web: throttled in 100 of 100 periods (100.0 %): this shows its use, not its demand. It used 0.20 CPUs; with the CPUs on which it waited, at least 0.50. Record it without a limit to see all
`

// TestUsage: the table has each window length, and the demand that the limit has hidden.
func TestUsage(t *testing.T) {
	file := sampleRecording(t, true)
	code, out, errOut := command(t, "", "usage", "--top", "1", file)
	if code != 0 || errOut != "" || out != wantUsage {
		t.Errorf("%d, %s\n%s", code, errOut, out)
	}
	if _, out, _ := command(t, "", "usage", sampleRecording(t, false)); !strings.Contains(out, "it has no end: its recorder still runs or was killed") || !strings.Contains(out, "\ndb  ") {
		t.Errorf("a recording without an end:\n%s", out)
	}
	var data struct {
		Groups []struct {
			Name         string
			UsageSeconds float64
			HiddenDemand *struct{ UsedMilli, WantedAtLeastMilli float64 }
		}
	}
	_, out, _ = command(t, "", "usage", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &data); err != nil || len(data.Groups) != 2 || data.Groups[0].Name != "web" || data.Groups[0].UsageSeconds != 2 ||
		data.Groups[0].HiddenDemand.WantedAtLeastMilli != 500 || data.Groups[1].HiddenDemand != nil {
		t.Errorf("%v, %s", err, out)
	}
	if _, out, _ := command(t, "", "usage", file, "--group", "web", "--from", "2s", "--to", "4s"); !strings.HasPrefix(out, "2s to 4s of 10s from ") || !strings.Contains(out, "\nweb: throttled in 20 of 20 periods ") {
		t.Errorf("--from and --to:\n%s", out)
	}
	for form, start := range map[string]string{"svg": "<?xml", "png": "\x89PNG"} {
		if code, out, errOut := command(t, "", "usage", file, "-o", form); code != 0 || !strings.HasPrefix(out, start) {
			t.Errorf("-o %s: %d, %s, %.20q", form, code, errOut, out)
		}
	}
	for line, want := range map[string]string{
		file + " --group x":         `--group "x": not in the recording; it has web, db`,
		file + " --top -1":          "--top -1: must be 0 or more",
		file + " --from 10s":        file + ": no such part of the recording: it begins at 10s, and the recording has 10s",
		file + " --from 2s --to 1s": "--from 2s --to 1s: --from must be 0 or more, and --to later",
		"record_test.go":            `record_test.go: not a recording of version 1: must start with "candor usage 1\n"`,
		"/no/such/file":             "open /no/such/file: no such file or directory",
		"":                          "0 arguments: must be 1, the FILE",
		file + " -o xml":            `--output "xml": must be one of`,
		"/dev/null":                 "/dev/null: the recording has no end: its recorder still runs or was killed",
	} {
		code, out, errOut := command(t, "", append([]string{"usage"}, strings.Fields(line)...)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, "candor usage: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor usage %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
}
