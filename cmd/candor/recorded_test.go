package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/simreport"
	"github.com/candor-project/candor/cmd/candor/internal/top"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/trace"
	"github.com/candor-project/candor/view"
)

// recorded is the directory with the records of the interfaces that users and scripts depend on. A test fails if
// an interface differs from its record. go test -update adds new fields and flags to a record, and removes none.
const recorded = "testdata/recorded"

// TestRecordedFlags compares the commands and flags, with their types and defaults, with the record. The
// record has no help texts.
func TestRecordedFlags(t *testing.T) {
	for _, variable := range []string{"XDG_RUNTIME_DIR", "CANDOR_STATE_DIR", "CANDOR_CONFIG", "CANDOR_CGROUP_PARENT", "CANDOR_CGROUP_DRIVER"} {
		t.Setenv(variable, "") // defaults contain them
	}
	root, _ := newRoot()
	var lines []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Name() == "help" {
			return // cobra defines both
		}
		lines = append(lines, c.CommandPath())
		for _, alias := range c.Aliases {
			lines = append(lines, c.Parent().CommandPath()+" "+alias+" alias of "+c.Name())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := "--" + f.Name
			if f.Shorthand != "" {
				name += " -" + f.Shorthand
			}
			if f.NoOptDefVal != "" {
				name += "[=" + f.NoOptDefVal + "]"
			}
			lines = append(lines, fmt.Sprintf("%s %s %s default %q", c.CommandPath(), name, f.Value.Type(), f.DefValue))
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	slices.Sort(lines)
	golden.CheckLines(t, filepath.Join(recorded, "flags.txt"), strings.Join(lines, "\n")+"\n")
}

// TestRecordedJSON compares the names and types of the fields in the JSON of each command with the record.
func TestRecordedJSON(t *testing.T) {
	check := func(name, documents string, mapPaths ...string) {
		t.Helper()
		golden.CheckShape(t, filepath.Join(recorded, name+".txt"), documents, mapPaths...)
		checkForm(t, name, documents)
	}
	for _, c := range recordedWriters(t) {
		var out bytes.Buffer
		if err := c.write(&out); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check(c.name, out.String(), c.mapPaths...)
	}
	for _, c := range recordedRuns(t) {
		code, out, errOut := command(t, c.in, c.args...)
		if code != 0 {
			t.Errorf("candor %s: code %d, %s", strings.Join(c.args, " "), code, errOut)
			continue
		}
		check(c.name, out, c.mapPaths...)
	}
	_, short, _ := command(t, "", "advise", sampleRecording(t, true), "-o", "json")
	check("advise-short", short)
}

// lineCommands are the records of commands that write each value on a line. The other commands indent their value.
var lineCommands = []string{"plan", "plan-run", "top", "trace-info-run"}

// checkForm fails the test unless JSON values are indented or, for lineCommands, have a line each.
func checkForm(t *testing.T, name, documents string) {
	t.Helper()
	var indented, lines bytes.Buffer
	for d := json.NewDecoder(strings.NewReader(documents)); ; {
		var value json.RawMessage
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			break
		} else if err := errors.Join(err, json.Indent(&indented, value, "", "  "), json.Compact(&lines, value)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		indented.WriteByte('\n')
		lines.WriteByte('\n')
	}
	want := indented.String()
	if slices.Contains(lineCommands, name) {
		want = lines.String()
	}
	if documents != want {
		t.Errorf("%s has another form than the other commands:\n%s\nwant\n%s", name, documents, want)
	}
}

// recordedWriter writes the JSON of a command whose output depends on the machine.
type recordedWriter struct {
	name     string
	write    func(*bytes.Buffer) error
	mapPaths []string
}

// recordedWriters returns the writers, with values in which each optional field is set.
func recordedWriters(t *testing.T) []recordedWriter {
	e := example(t)
	m := cpumap.FromNode(e.Node)
	m.Names, m.ForeignUses, m.SeenCPUs = e.DisplayNames(), e.report.Strangers, e.seen()
	m.SeenCPUs["web"] = full[view.Summary]()
	m.Foreign = []cpumap.Foreign{full[cpumap.Foreign]()}
	m.Limits, m.Reservations = []cpumap.GroupLimit{full[cpumap.GroupLimit]()}, []cpumap.Reservation{full[cpumap.Reservation]()}
	row := full[grantRow]()
	row.Fractions = planio.Fractions{{CPU: 1, Milli: 500}}
	report := inspection{grantRow: row, Group: new(full[groupRow]()), LimitedBy: m.Limits, Strangers: m.ForeignUses, Sources: []view.Source{full[view.Source]()}}
	rows := auditRows([]audit.Container{full[audit.Container]()}, true, nil)
	var classify classifyFlags
	classify.output.value = "json"
	jsonOf := func(v any) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error { return writeJSON(b, v) }
	}
	result := full[planio.Result]()
	result.Grant.Fractions, result.Changes[0].Fractions = row.Fractions, row.Fractions
	e.rows[0].Note = "x"
	figures := e.figures()
	figures.ForeignUses = m.ForeignUses
	return []recordedWriter{
		{"ps", jsonOf(append(e.rows, row)), []string{"[].fractionsMilli"}},
		{"inspect", jsonOf(report), []string{"fractionsMilli"}},
		{"map", func(b *bytes.Buffer) error { return m.JSON(b) }, []string{"containers[].fractionsMilli"}},
		{"top", func(b *bytes.Buffer) error { return new(top.UI{Sort: top.ByUse}).JSON(b, figures) }, nil},
		{"audit", jsonOf(rows), nil},
		{"ledger", jsonOf(full[ledgerDocument]()), []string{"unattributedMilli"}},
		{"view", func(b *bytes.Buffer) error { return writeReport(b, full[view.Report](), &choice{value: "json"}) }, nil},
		{"classify", func(b *bytes.Buffer) error { return classify.show(b, new(full[experiment.Class]())) }, []string{"evaluations[].runs[].values"}},
		{"interference", jsonOf(full[interference.Report]()), nil},
		{"setup-host", jsonOf(full[setup.Result]()), nil},
		{"plan", func(b *bytes.Buffer) error { return result.WriteJSON(b) }, []string{"grant.fractionsMilli", "changes[].fractionsMilli"}},
		{"simulate", func(b *bytes.Buffer) error { return new(full[simreport.Report]()).JSON(b) }, nil},
		{"trace-info", jsonOf(full[trace.Summary]()), []string{"containers.ends"}},
	}
}

// recordedRun is a command line whose output has the same fields on each machine.
type recordedRun struct {
	name     string
	in       string
	args     []string
	mapPaths []string
}

// recordedRuns returns the command lines, with their input files.
func recordedRuns(t *testing.T) []recordedRun {
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	operations := `{"op":"allocate","id":"web","cpu":"1500m","class":"sensitive","topology":"single-numa","policy":"best-effort"}
{"op":"allocate","id":"log","cpu":"2","request":"1500m","class":"flexible"}
{"op":"resize","id":"web","cpu":"2500m"}
{"op":"allocate","id":"huge","cpu":"64"}
{"op":"release","id":"web"}
`
	const machine = `{"online":"0-1","offline":"2","isolated":"","hasL3":true,"sockets":[{"id":0,"cpus":"0-1"}],
"nodes":[{"id":0,"cpus":"0-1","distances":[10],"memory":[0]}],"l3s":[{"id":0,"cpus":"0-1"}],"cores":[{"id":0,"cpus":"0"},{"id":1,"cpus":"1"}],
"kinds":[{"name":"performance","cpus":"0"},{"name":"efficiency","cpus":"1"}],
"cpus":[{"id":0,"online":true,"socket":0,"node":0,"l3":0,"core":0,"capacity":1024,"maxKHz":3000000},{"id":1,"online":true,"socket":0,"node":0,"l3":0,"core":1,"capacity":512,"maxKHz":2000000},
{"id":2,"online":false,"socket":-1,"node":-1,"l3":-1,"core":-1}]}`
	apps, nodes := placeFiles(t, "name,cpu,memory\na,1.5,10\nb,500m,10\n", "name,cpu,memory\nn,1,20\nm,2,20\n")
	gain := write("gain.csv", "workload,alone,shared,weight\nstream,1.7,1.1,1\n")
	recordingOn := func(model string) string {
		return phasedRecording(t, record.Header{Interval: 10 * time.Millisecond, CPUs: 2, Model: model}, "/pod")
	}
	usage := recordingOn("Model X")
	limited := sampleRecording(t, true)
	report := func(name string) string { return filepath.Join(recorded, name+".json") }
	return []recordedRun{
		{"plan-run", operations, []string{"plan", "--machine", "core:4 pu:1", "--explain", "-o", "json"}, []string{"grant.fractionsMilli", "changes[].fractionsMilli"}},
		{"topology", "", []string{"topology", "--machine", write("machine.json", machine), "-o", "json"}, nil},
		{"place", "", []string{"place", "--apps", apps, "--nodes", nodes, "-o", "json"}, nil},
		{"simulate-run", "", []string{"simulate", "--trace", smallCell, "--algorithm", "candor", "--size", "s<50%", "--gain", gain, "-o", "json"}, nil},
		{"trace-info-run", "", []string{"trace", "info", smallCell, "-o", "json"}, []string{"containers.ends"}},
		{"usage", "", []string{"usage", limited, "-o", "json"}, nil},
		{"usage-above", "", []string{"usage", usage, "-o", "json"}, nil},
		{"advise", "", []string{"advise", usage, recordingOn("Model Y"), limited, "--node-cpus", "8", "--target", "throttled<10%", "-o", "json"}, nil},
		{"load", "", []string{"load", "--work", "1ms", "--rest", "10ms", "--duration", "1s", "-o", "json"}, nil},
		{"compare", "", []string{"report", report("compare"), "-o", "json"}, []string{"runs[].values"}},
		{"compare-image", "", []string{"report", report("compare-image"), "-o", "json"}, []string{"runs[].values"}},
		{"isolate", "", []string{"report", report("isolate"), "-o", "json"}, nil},
		{"report-several", "", []string{"report", report("compare"), report("compare-image"), "-o", "json"}, nil},
	}
}

// TestRecordedReports reads reports that candor compare and candor isolate have written, without verdicts. candor report must write
// the same bytes, and add the verdicts. It must read and write its own output without a change.
func TestRecordedReports(t *testing.T) {
	for _, name := range []string{"compare", "compare-image", "isolate"} {
		file := filepath.Join(recorded, name+".json")
		code, out, errOut := command(t, "", "report", file, "-o", "json")
		if code != 0 {
			t.Errorf("candor report %s: code %d, %s", file, code, errOut)
			continue
		}
		text, err := os.ReadFile(file)
		old, added, _ := strings.Cut(out, ",\n  \"verdicts\": [")
		if err != nil || string(text) != old+"\n}\n" || added == "" {
			t.Errorf("%v, %s is written as:\n%s", err, file, out)
		}
		now := filepath.Join(t.TempDir(), "now.json")
		if err := os.WriteFile(now, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, again, errOut := command(t, "", "report", now, "-o", "json"); code != 0 || again != out {
			t.Errorf("candor report %s of its own output: code %d, %s\n%s", name, code, errOut, again)
		}
	}
}

// TestRecordedUsage reads a recording that candor record has written, and compares the figures with the
// record.
func TestRecordedUsage(t *testing.T) {
	code, out, errOut := command(t, "", "usage", filepath.Join(recorded, "web.usage"), "-o", "json")
	if code != 0 {
		t.Fatalf("code %d, %s", code, errOut)
	}
	golden.CheckLines(t, filepath.Join(recorded, "web.usage.json"), out)
}

// full returns a value with all fields set: numbers are 1, and lists and maps have a single element.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch at := v.Addr().Interface().(type) {
	case *cpuset.Set:
		*at = cpuset.Of(0)
		return
	case *time.Time:
		*at = time.Unix(1e9, 0).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64, reflect.Float32:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	}
}

// TestRecordedRuntimeNames: configurations of engines contain the names of the OCI runtimes, so each name
// keeps its class.
func TestRecordedRuntimeNames(t *testing.T) {
	for name, want := range map[string]hybrid.Class{"candor-runc": hybrid.Sensitive, "/usr/bin/candor-flexible-runc": hybrid.Flexible} {
		if class, ok := runtimeClass(name); !ok || class != want {
			t.Errorf("%s: %t, class %v, want %v", name, ok, class, want)
		}
	}
	if _, ok := runtimeClass("/usr/bin/candor"); ok {
		t.Error("candor is accepted as a runtime name")
	}
}

// TestRecordedEnvironment: environment variables set the defaults of flags.
func TestRecordedEnvironment(t *testing.T) {
	for variable, value := range map[string]string{
		"CANDOR_STATE_DIR": "/run/lab", "CANDOR_CONFIG": "/run/lab/host.json", "CANDOR_CGROUP_PARENT": "/lab", "CANDOR_CGROUP_DRIVER": "systemd",
	} {
		t.Setenv(variable, value)
	}
	root, _ := newRoot()
	for line, flags := range map[string]map[string]string{
		"ps":    {"state-dir": "/run/lab", "config": "/run/lab/host.json", "cgroup-parent": "/lab", "cgroup-driver": "systemd"},
		"run":   {"state-dir": "/run/lab", "config": "/run/lab/host.json", "cgroup-parent": "/lab", "cgroup-driver": "systemd"},
		"nri":   {"state-dir": "/run/lab", "host-options": "/run/lab/host.json", "cgroup-parent": "/lab", "cgroup-driver": "systemd"},
		"audit": {"state-dir": "/run/lab", "cgroup-parent": "/lab", "cgroup-driver": "systemd"},
	} {
		cmd, _, err := root.Find([]string{line})
		if err != nil {
			t.Fatal(err)
		}
		for flag, want := range flags {
			if got := cmd.Flag(flag).Value.String(); got != want {
				t.Errorf("candor %s --%s: %q, want %q", line, flag, got, want)
			}
		}
	}
}
