package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/trace"
)

const googleFixture = "google2011:../../trace/testdata/google"

// TestTraceBadInput: bad input gives an error of a single line with the accepted values, exit code 2 and no
// file.
func TestTraceBadInput(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.csv")
	if err := os.WriteFile(broken, []byte("time,event,machine,job,cpu\n0,machine-add,m,,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.ctrace")
	many := strings.Repeat(" synthetic:days=1", 7)
	for line, want := range map[string]string{
		"trace info":                                  "missing TRACE; must be a trace of a kind that candor trace info --help lists",
		"trace ifno":                                  `unknown command "ifno": did you mean "info"?`,
		"trace info borg:x":                           `bad trace spec "borg:x": must be google2011:DIR, openb:DIR, csv:FILE, kubectl:DIR, synthetic`,
		"trace info synthetic:machines=-1":            `bad trace spec "synthetic:machines=-1": machines "-1": must be a number from 1 to 10000000`,
		"trace info csv:/no/such":                     "open /no/such: no such file or directory",
		"trace info -o png synthetic":                 `--output "png": must be one of table, wide, json, svg`,
		"trace info -o svg" + many:                    "-o svg shows 6 traces at most, got 7",
		"trace info --cores-of-largest 0 synthetic":   "--cores-of-largest 0: must be a number above 0, at most 100000",
		"trace info --cores-of-largest NaN synthetic": "--cores-of-largest NaN: must be a number above 0",
		"trace info csv:" + broken:                    broken + `:2: cpu: "0": must be the machine's CPUs, such as 16`,
		"trace import -o " + file:                     "0 arguments: must be 1, a TRACE of a kind that candor trace import --help lists",
		"trace import synthetic":                      "missing --output; must be a file whose name ends in .ctrace",
		"trace import synthetic -o x.csv":             `--output "x.csv": must be a file whose name ends in .ctrace`,
		"trace import synthetic -o /no/such/x.ctrace": "--output: stat /no/such: no such file or directory",
		"trace import csv:" + broken + " -o " + file:  broken + `:2: cpu: "0": must be the machine's CPUs, such as 16`,
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, errorPrefix(t, strings.Fields(line))+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("bad input left a file")
	}
	if code, out, errOut := command(t, "", "trace", "info", "--lenient", "csv:"+broken); code != 0 || !strings.Contains(out, "skipped of csv:\n        1  cpu, the first at "+broken+":2\n") {
		t.Errorf("lenient: %d, %s%s", code, out, errOut)
	}
}

// TestTraceFormats imports a trace and prints its summary in each format. The summary of the import equals
// the summary of the source.
func TestTraceFormats(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.ctrace")
	code, out, errOut := command(t, "", "trace", "import", googleFixture, "-o", file)
	if code != 0 || !strings.HasPrefix(out, file+": 14 events, 5 containers, 3 machines, 0.26 hours; ") || !strings.Contains(out, "left out: 1 requests that change") {
		t.Fatalf("%d, %s%s", code, out, errOut)
	}
	_, fromSource, _ := command(t, "", "trace", "info", googleFixture)
	code, out, errOut = command(t, "", "trace", "info", file)
	if code != 0 || out != fromSource || !strings.Contains(out, "machines at the start                           3\n") {
		t.Errorf("%d, %s%s; want\n%s", code, out, errOut, fromSource)
	}
	if code, out, _ = command(t, "", "trace", "info", "-o", "svg", file, "synthetic:machines=10,days=0.1"); code != 0 || !strings.HasPrefix(out, "<svg ") {
		t.Errorf("%d, %s", code, out)
	}
	code, out, errOut = command(t, "", "trace", "info", "-o", "json", "--cores-of-largest", "32", file)
	var s trace.Summary
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil {
		t.Fatalf("%d, %v, %s%s", code, err, out, errOut)
	}
	if s.Machines.Cores != 56 || s.Header.Unit != trace.LargestMachine || s.Containers.New != 3 || len(s.Report.NotModelled) != 2 || s.RequestHeld.P50 != 4 {
		t.Errorf("%s", out)
	}
}

// TestTraceCompletion: candor completes the kinds of traces. After a kind, the shell completes the path.
func TestTraceCompletion(t *testing.T) {
	if _, out, _ := command(t, "", "__complete", "trace", "info", ""); !strings.Contains(out, "google2011:\n") || !strings.Contains(out, "synthetic\n") {
		t.Error(out)
	}
	if _, out, _ := command(t, "", "__complete", "trace", "info", "csv:"); !strings.Contains(out, ":0\n") {
		t.Error(out)
	}
}

var traceConsole = regexp.MustCompile("(?s)```console\n\\$ candor (trace [^\n]*)\n(.*?)```")

// TestTraceDocs compares the commands in the trace pages with their output. It skips commands that read real
// traces if ../shared/traces does not exist.
func TestTraceDocs(t *testing.T) {
	t.Chdir("../..")
	count := 0
	for _, page := range []string{"docs/trace.md", "docs/reference/trace-formats.md", "docs/benchmarks/trace.md"} {
		count += testTracePage(t, page)
	}
	if count < 3 {
		t.Errorf("found %d commands, want at least 3; the regular expression may be wrong", count)
	}
}

// testTracePage compares the commands of a page with their output, and returns the number of commands.
func testTracePage(t *testing.T, page string) (count int) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	now := traceConsole.ReplaceAllStringFunc(string(text), func(block string) string {
		count++
		parts := traceConsole.FindStringSubmatch(block)
		if _, err := os.Stat("../shared/traces"); err != nil && strings.Contains(parts[1], "../shared") {
			t.Logf("no ../shared/traces: candor %s is not run", parts[1])
			return block
		}
		out := output(t, parts[1])
		if out != parts[2] && !*update {
			t.Errorf("%s: candor %s prints (go test -update rewrites it)\n%s", page, parts[1], out)
		}
		return strings.TrimSuffix(block, parts[2]+"```") + out + "```"
	})
	if *update && now != string(text) {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return count
}

// TestTraceProgress: the line has the number of events and the rate. If the header has the number of events
// or the time span, it also has a bar and the remaining time.
func TestTraceProgress(t *testing.T) {
	events := make([]trace.Event, 2*stride)
	for i := range events {
		events[i] = trace.Event{Kind: trace.MachineUpdate, Time: trace.Micros(i)}
	}
	for _, test := range []struct {
		header trace.Header
		parts  string
		want   string
	}{
		{trace.Header{}, "", "1024 events, 512 a second"},
		{trace.Header{}, "1 of 2 traces", "1 of 2 traces, 1024 events, 512 a second"},
		{trace.Header{Events: 2 * stride, Span: 9}, "", "[############------------] 2s left, 1024 events, 512 a second"},
		{trace.Header{Span: 4 * (stride - 1)}, "", "[######------------------] 6s left, 1024 events, 512 a second"},
	} {
		c := &countedReader{Reader: trace.NewMemory(trace.Header{}, events)}
		if line := c.stage(test.header, "").line(time.Second); line != "0 events, 0 a second" {
			t.Errorf("at the start: %q", line)
		}
		var e trace.Event
		for range stride + 10 {
			if err := c.Next(&e); err != nil {
				t.Fatal(err)
			}
		}
		if line := c.stage(test.header, test.parts).line(2 * time.Second); line != test.want {
			t.Errorf("%+v: %q, want %q", test.header, line, test.want)
		}
	}
}

// TestNoProgressInFile: no progress is written if standard error is a file. The reader still returns all
// events.
func TestNoProgressInFile(t *testing.T) {
	r, err := trace.Open(googleFixture, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counted, end := countEvents(file, r, "")
	n := 0
	for err = nil; err == nil; n++ {
		err = counted.Next(&trace.Event{})
	}
	if end(); err != io.EOF || n != 14+1 {
		t.Errorf("%d events, %v", n-1, err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}
