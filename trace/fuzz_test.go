package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"testing"
)

// wellFormed reads a trace strictly and leniently. The strict reader ends with the end of the trace or a
// *SyntaxError. The lenient reader ends with the end; only a file without its columns fails to open. The
// events follow the rules of doc.go, which the compact writer checks.
func wellFormed(t *testing.T, open func(Options) (Reader, error), rules ...func([]Event) error) {
	for _, o := range []Options{{}, {Lenient: true}} {
		r, err := open(o)
		var events []Event
		if err == nil {
			events, err = all(r)
		}
		var fault *SyntaxError
		switch {
		case err == nil:
		case !errors.As(err, &fault):
			t.Fatalf("%+v: %v", o, err)
		case o.Lenient && r != nil:
			t.Fatalf("lenient: %v", err)
		}
		for _, keeps := range append(rules, keepsRules) {
			if err := keeps(events); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
	}
}

// bytesTable returns a table that reads text.
func bytesTable(name string, text []byte) *table {
	return newTable(name, bytes.NewReader(text), func() error { return nil })
}

// seed returns the text of a fixture's file.
func seed(f *testing.F, path string) []byte {
	text, err := os.ReadFile("testdata/" + path)
	if err != nil {
		f.Fatal(err)
	}
	return text
}

func FuzzGoogle(f *testing.F) {
	f.Add(seed(f, "google/"+gMachines), seed(f, "google/"+gTasks), true, false)
	f.Add(seed(f, "google/"+gMachines), seed(f, "google/"+gTasks1), false, true)
	f.Fuzz(func(t *testing.T, machines, tasks []byte, first, submits bool) {
		wellFormed(t, func(o Options) (Reader, error) {
			m := &googleTable{table: *bytesTable("machines", machines), fields: machineColumns}
			e := &googleTable{table: *bytesTable("tasks", tasks), fields: taskColumns}
			if !first {
				e.number = 1
			}
			return newGoogle(spec{submits: submits}, o, m, e), nil
		})
	})
}

// FuzzJobs reads arbitrary job tables of the semi-real month. The month may have millions of containers, so
// it reads at most 2000 events.
func FuzzJobs(f *testing.F) {
	f.Add(seed(f, "google/jobs_2011_imputed.csv"))
	machines, tasks := seed(f, "google/"+gMachines), seed(f, "google/"+gTasks)
	f.Fuzz(func(t *testing.T, jobs []byte) {
		for _, o := range []Options{{}, {Lenient: true}} {
			m := &googleTable{table: *bytesTable("machines", machines), fields: machineColumns}
			e := &googleTable{table: *bytesTable("tasks", tasks), fields: taskColumns}
			r, err := newSemiReal(spec{}, bytesTable("jobs", jobs), newGoogle(spec{}, o, m, e))
			opened := err == nil
			events := make([]Event, 0, 2000)
			for err == nil && len(events) < cap(events) {
				var e Event
				if err = r.Next(&e); err == nil {
					events = append(events, e)
				}
			}
			if fault := (*SyntaxError)(nil); err != nil && err != io.EOF && (!errors.As(err, &fault) || o.Lenient && opened) {
				t.Fatalf("%+v: %v", o, err)
			}
			if err := keepsRules(events); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
	})
}

// startsOnce returns an error if a task starts twice: a list of pods has each pod once.
func startsOnce(events []Event) error {
	type task struct {
		job  uint64
		task uint32
	}
	seen := map[task]bool{}
	for i := range events {
		if e := &events[i]; e.Kind == Submit {
			if seen[task{e.Job, e.Task}] {
				return fmt.Errorf("event %d: task %d of job %d is there twice", i, e.Task, e.Job)
			}
			seen[task{e.Job, e.Task}] = true
		}
	}
	return nil
}

func FuzzOpenb(f *testing.F) {
	nodes, pods := seed(f, "openb/"+oNodes), seed(f, "openb/"+oPods)
	f.Add(nodes, pods, true)
	f.Add(nodes, bytes.ReplaceAll(pods, []byte("pod-4"), []byte("pod-1")), false)
	f.Fuzz(func(t *testing.T, nodes, pods []byte, submits bool) {
		wellFormed(t, func(o Options) (Reader, error) {
			return newOpenb(spec{submits: submits}, o, bytesTable("nodes", nodes), bytesTable("pods", pods))
		}, startsOnce)
	})
}

func FuzzAzure(f *testing.F) {
	vms := seed(f, "azure/vmtable.csv")
	f.Add(vms)
	f.Add(bytes.ReplaceAll(vms, []byte("vm/c+3="), []byte("vm/a+1=")))
	f.Add([]byte("vmid,subscriptionid,deploymentid,vmcreated,vmdeleted,maxcpu,avgcpu,p95maxcpu,vmcategory,vmcorecount,vmmemory\n"))
	f.Fuzz(func(t *testing.T, vms []byte) {
		wellFormed(t, func(o Options) (Reader, error) {
			return newAzure(spec{}, o, bytesTable("vms", vms), 2, capacity{8000, 28 << 10})
		}, startsOnce)
	})
}

func FuzzPlain(f *testing.F) {
	f.Add(seed(f, "plain/trace.csv"))
	f.Fuzz(func(t *testing.T, text []byte) {
		wellFormed(t, func(o Options) (Reader, error) { return newPlain(spec{}, o, bytesTable("plain", text)) })
	})
}

func FuzzKubectl(f *testing.F) {
	nodes, pods := seed(f, "kubectl/nodes.json"), seed(f, "kubectl/pods.json")
	f.Add(nodes, pods, false)
	f.Add(nodes, bytes.ReplaceAll(pods, []byte("web-a"), []byte("web-b")), true)
	f.Fuzz(func(t *testing.T, nodes, pods []byte, submits bool) {
		wellFormed(t, func(o Options) (Reader, error) {
			return newKubectl(spec{submits: submits}, o, newJSONList("nodes", bytes.NewReader(nodes)), newJSONList("pods", bytes.NewReader(pods)))
		}, startsOnce)
	})
}

// FuzzNumber: parseScaled accepts the same numbers as strconv, and rounds in the same way.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0.0625", "1.526e-05", "1e3", ".5", "5.", "-1", "NaN", "1e400", "123456789012345678901234567890", "0.00000000000000000000000000001", "1e-30", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseScaled([]byte(s), 9)
		want, err := strconv.ParseFloat(s, 64)
		if !ok {
			return
		}
		if err != nil || want < 0 || math.Abs(float64(got)-want*1e9) > 1+want*1e9*1e-12 {
			t.Errorf("%q: %d, strconv has %v, %v", s, got, want*1e9, err)
		}
	})
}

// TestLongLine: a file without line ends is refused before it fills the memory.
func TestLongLine(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		in := io.MultiReader(bytes.NewReader([]byte("time,event,machine,job,cpu\n")), endless{})
		p, err := newPlain(spec{}, Options{Lenient: lenient}, newTable("endless", in, func() error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		err = p.Next(&Event{})
		if lenient && err != io.EOF || !lenient && (err == nil || err.Error() != "endless:2: no CSV file: a line of more than 1048576 bytes") {
			t.Errorf("lenient %v: %v", lenient, err)
		}
	}
}

// endless is a reader of zeros without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
