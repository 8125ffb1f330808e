package trace

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixtures has the directories of the fixtures' files, and the specifications that open them.
var fixtures = map[string]struct{ dir, spec string }{
	"google":  {"testdata/google", "google2011:DIR"},
	"jobs":    {"testdata/google", "semi-real:DIR"},
	"openb":   {"testdata/openb", "openb:DIR"},
	"plain":   {"testdata/plain", "csv:DIR/trace.csv"},
	"kubectl": {"testdata/kubectl", "kubectl:DIR"},
	"azure":   {"testdata/azure", "azure:DIR/vmtable.csv,machines=2,cores=8,memory=28"},
}

// The names of the fixtures' files.
const (
	gMachines = "machine_events-part-00000-of-00001.csv"
	gTasks    = "task_events-part-00000-of-00500.csv"
	gTasks1   = "task_events-part-00001-of-00500.csv"
	gJobs     = "jobs_2011_imputed.csv"
	oNodes    = "openb_node_list_all_node.csv"
	oPods     = "openb_pod_list_default.csv"
)

// badInput lists the changes that make a fixture invalid, and the error of a strict reader.
var badInput = []struct{ fixture, file, old, new, want string }{
	{"google", gTasks, `0,,100,0,11,0,user=,3,9,0.125,0.07446,0.0004244,0`, `0,,100,0,11,0,user=,3,9,0.125`, gTasks + ":1: number of fields: 10: must be 13"},
	{"google", gTasks, "0,,100,1,12,1", "-1,,100,1,12,1", gTasks + `:5: time: "-1": must be microseconds`},
	{"google", gTasks, "600000000,,102,0,,0", "700000001,,102,0,,0", gTasks + ":7: events out of order: 600000000 after 700000001"},
	{"google", gTasks, "0,,100,0,11,1,user=,3,9,0.125", "0,,100,0,11,1,user=,3,9,-0.125", gTasks + `:4: CPU request: "-0.125": must be a fraction of the largest machine, from 0 to 1`},
	{"google", gTasks, "0,,100,0,11,1,user=,3,9,0.125", "0,,100,0,11,1,user=,3,9,NaN", gTasks + `:4: CPU request: "NaN": must be a fraction of the largest machine, from 0 to 1`},
	{"google", gTasks, "0,,100,0,11,1,user=,3,9,0.125", "0,,100,0,11,1,user=,3,9,1.5", gTasks + `:4: CPU request: "1.5": must be a fraction of the largest machine, from 0 to 1`},
	{"google", gTasks, "0,,100,0,11,1,user=,3,9,0.125,0.07446", "0,,100,0,11,1,user=,3,9,0.125,inf", gTasks + `:4: memory request: "inf": must be a fraction of the largest machine, from 0 to 1`},
	{"google", gTasks, "0,,100,0,11,1,user=,3,9,0.125", "0,,100,0,11,1,user=,3,9,0.8", gTasks + ":4: CPU request above the largest machine: 0.8, the largest has 0.75"},
	{"google", gTasks, "600000000,,102,0,13,1", "600000000,,102,0,77,1", gTasks + `:7: unknown machine: "77" was not added before`},
	{"google", gTasks, "600000000,,102,0,,0,user=,2,2,0.0006247,1.526e-05,0,0\n", "", gTasks + ":6: a start without a submit: task 0 of job 102"},
	{"google", gTasks1, "800000000,,100,0,11,3", "800000000,,999,0,11,3", gTasks1 + ":2: an end without a start: task 0 of job 999"},
	{"google", gTasks, "700000001,,102,0,12,1", "700000001,,100,0,12,1", gTasks + ":10: started twice: task 0 of job 100 runs"},
	{"google", gTasks, "0,2,101,0,,0", "0,2,100,1,,0", gTasks + ":3: submitted twice: task 1 of job 100 has not ended"},
	{"google", gTasks, "0,2,101,0,,0", "0,2,101,0,,9", gTasks + `:3: event type: "9": must be 0 (SUBMIT) to 8 (UPDATE_RUNNING)`},
	{"google", gTasks, "0,2,101,0,,0", "0,2,x,0,,0", gTasks + `:3: job id: "x": must be a number`},
	{"google", gTasks, "0,2,101,0,,0", "0,2,101,9999999999,,0", gTasks + `:3: task index: "9999999999": must be a number`},
	{"google", gTasks, "12,1,user=,3,9", "12,1,user=,4,9", gTasks + `:5: scheduling class: "4": must be 0 to 3`},
	{"google", gTasks, "12,1,user=,3,9", "12,1,user=,3,12", gTasks + `:5: priority: "12": must be 0 to 11`},
	{"google", gTasks, "11,1,user=,3,9,0.125,0.07446,0.0004244,0", "11,1,user=,3,9,0.125,0.07446,0.0004244,2", gTasks + `:4: different-machines: "2": must be 0 or 1`},
	{"google", gTasks1, "12,1,user=,1,11,0,0.01,0,0\n", "12,1,user=,1,11,0,0.01,0,0", gTasks1 + ":6: truncated: the file breaks off within a line"},
	{"google", gMachines, "700000000,13,1", "700000000,77,1", gMachines + ":4: unknown machine: 77 was not added before"},
	{"google", gMachines, "750000000,13,0", "750000000,12,0", gMachines + ":5: machine added twice: 12"},
	{"google", gMachines, "0,13,0", "0,13,3", gMachines + `:3: event type: "3": must be 0 (ADD), 1 (REMOVE) or 2 (UPDATE)`},
	{"google", gMachines, "0,13,0,bbb=,0.5", "0,13,0,bbb=,1.5", gMachines + `:3: machine's CPU: "1.5": must be a fraction of the largest machine, from 0 to 1`},
	{"jobs", gJobs, "job_id", "job", gJobs + ":1: wrong columns: must be job_id,submit_us,schedule_us,end_us,end_event,sched_class,user_id,logical_name_id,n_tasks,cpu_request,src"},
	{"jobs", gJobs, "200,960000000", "x,960000000", gJobs + `:3: job_id: "x": must be a number`},
	{"jobs", gJobs, "201,970000000", "201,950000001", gJobs + ":4: events out of order: 950000001 after 960000000"},
	{"jobs", gJobs, "1061000000", "1", gJobs + `:3: end_us: "1": must be a time from schedule_us on, or empty`},
	{"jobs", gJobs, "0.03125", "-1", gJobs + `:3: cpu_request: "-1": must be a fraction of the largest machine, or empty`},
	{"jobs", gJobs, ",,,3,", ",,,4,", gJobs + ":4: sched_class: 4: must be 0 to 3"},
	{"jobs", gJobs, ",2,0.03125", ",0,0.03125", gJobs + ":3: n_tasks: 0: must be 1 to 100000"},
	{"openb", oNodes, "sn,cpu_milli", "sn,cpu", oNodes + ":1: wrong columns: must be sn,cpu_milli,memory_mib,gpu,model"},
	{"openb", oNodes, "32000", "32.5", oNodes + `:2: CPU: "32.5": must be whole milli-CPU`},
	{"openb", oNodes, "node-b", "node-a", oNodes + `:3: machine added twice: "node-a"`},
	{"openb", oPods, "pod-4", "pod-1", oPods + `:6: pod listed twice: "pod-1"`},
	{"openb", oPods, "16384", "-1", oPods + `:2: memory: "-1": must be whole MiB`},
	{"openb", oPods, "3152,", "64001,", oPods + ":3: CPU request above the largest machine: 64001m, the largest has 64000m"},
	{"openb", oPods, ",BE,Failed", ",XX,Failed", oPods + `:3: qos: "XX": must be BE, LS, Burstable or Guaranteed`},
	{"openb", oPods, "Succeeded", "Gone", oPods + `:4: pod_phase: "Gone": must be Pending, Running, Succeeded or Failed`},
	{"openb", oPods, "10,100,15", "10,14,15", oPods + ":4: events out of order: deleted at 14, started at 15"},
	{"openb", oPods, "90,200,100", "90,,100", oPods + `:6: deletion_time: "": must be seconds`},
	{"openb", oPods, "90,200,100\n", "90,200", oPods + ":6: truncated: the file breaks off within a line"},
	{"plain", "trace.csv", "time,event", "zeit,event", `trace.csv:2: column: "zeit": must be one of time,event,machine,job,task,cpu,memory,class,priority,different-machines,reason`},
	{"plain", "trace.csv", "time,event", "event,event", `trace.csv:2: column: "event" is there twice`},
	{"plain", "trace.csv", ",reason", ",reason,", `trace.csv:2: column: "": must be one of time,event,machine,job,task,cpu,memory,class,priority,different-machines,reason`},
	{"plain", "trace.csv", "1.25,submit", "0.25,submit", `trace.csv:8: events out of order: 0.25 after 0.5`},
	{"plain", "trace.csv", "1.25,submit", "1.25,start", `trace.csv:8: event: "start": must be machine-add, machine-remove, machine-update, submit, end`},
	{"plain", "trace.csv", ",250m,", ",-250m,", `trace.csv:8: cpu: "-250m": must be a number of CPUs such as 2, 1.5 or 1500m`},
	{"plain", "trace.csv", ",250m,", ",NaN,", `trace.csv:8: cpu: "NaN": must be a number of CPUs such as 2, 1.5 or 1500m`},
	{"plain", "trace.csv", ",250m,", ",16.5,", `trace.csv:8: CPU request above the largest machine: 16500m, the largest has 16000m`},
	{"plain", "trace.csv", ",250m,,", ",250m,65Gi,", `trace.csv:8: memory request above the largest machine: 66560 MiB, the largest has 65536 MiB`},
	{"plain", "trace.csv", ",250m,,", ",250m,65GiB,", `trace.csv:8: memory: "65GiB": must be bytes, such as 512Mi or 4Gi`},
	{"plain", "trace.csv", "3,machine-remove,m2", "3,machine-remove,m3", `trace.csv:11: unknown machine: "m3" was not added before`},
	{"plain", "trace.csv", "4,machine-add,m2", "4,machine-add,m1", `trace.csv:12: machine added twice: "m1"`},
	{"plain", "trace.csv", "0,machine-add,m1,,,16", "0,machine-add,m1,,,0", `trace.csv:3: cpu: "0": must be the machine's CPUs, such as 16`},
	{"plain", "trace.csv", "6,end,,4711", "6,end,,4712", `trace.csv:14: an end without a start: task 0 of job "4712"`},
	{"plain", "trace.csv", "evicted", "gone", `trace.csv:9: reason: "gone": must be finished, evicted, failed, killed, lost`},
	{"plain", "trace.csv", "2,submit,,web,0", "2,submit,,web,1", `trace.csv:10: submitted twice: task 1 of job "web" has not ended`},
	{"plain", "trace.csv", "0.5,submit,,web,1", "0.5,submit,,web,x", `trace.csv:6: task: "x": must be a number`},
	{"plain", "trace.csv", "0.5,submit,,web", "0.5,submit,,", `trace.csv:6: job: "": must be a number or a name`},
	{"plain", "trace.csv", "sensitive,9,1,\n\n", "C1,9,1,\n\n", `trace.csv:6: class: "C1": must be sensitive or flexible`},
	{"plain", "trace.csv", "sensitive,9,1,\n\n", "sensitive,999,1,\n\n", `trace.csv:6: priority: "999": must be 0 to 255`},
	{"plain", "trace.csv", "sensitive,9,1,\n\n", "sensitive,9,yes,\n\n", `trace.csv:6: different-machines: "yes": must be 0 or 1`},
	{"plain", "trace.csv", `"512Mi"`, `"512Mi`, `trace.csv:6: quotes that don't match: "0.5,submit,,web,1,1500m,\"512Mi,sensitive,9,1,"`},
	{"azure", "vmtable.csv", "vm/c+3=", "vm/a+1=", `vmtable.csv:3: virtual machine listed twice: "vm/a+1="`},
	{"azure", "vmtable.csv", "2188800,", "-1,", `vmtable.csv:3: vmcreated: "-1": must be seconds`},
	{"azure", "vmtable.csv", "2188800,2591700", "2188800,2591700.5", `vmtable.csv:3: vmdeleted: "2591700.5": must be seconds`},
	{"azure", "vmtable.csv", "2188800,2591700", "2188800,2188500", "vmtable.csv:3: events out of order: deleted at 2188500, created at 2188800"},
	{"azure", "vmtable.csv", "Unknown", "Batch", `vmtable.csv:4: vmcategory: "Batch": must be Delay-insensitive, Interactive or Unknown`},
	{"azure", "vmtable.csv", "Unknown,2", "Unknown,>24", `vmtable.csv:4: vmcorecount: ">24": must be a number of cores such as 2`},
	{"azure", "vmtable.csv", "Unknown,2", "Unknown,9", "vmtable.csv:4: CPU request above the largest machine: 9000m, the largest has 8000m"},
	{"azure", "vmtable.csv", "2,3.5", "2,NaN", `vmtable.csv:4: vmmemory: "NaN": must be GB such as 1.75`},
	{"azure", "vmtable.csv", "2,3.5", "2,28.01", "vmtable.csv:4: memory request above the largest machine: 28683 MiB, the largest has 28672 MiB"},
	{"azure", "vmtable.csv", "Unknown,2,3.5", "Unknown,2", "vmtable.csv:4: number of fields: 10: must be 11"},
	{"azure", "vmtable.csv", "Interactive,4,7\n", "Interactive,4,7", "vmtable.csv:5: truncated: the file breaks off within a line"},
	{"kubectl", "nodes.json", `"n2"`, `"n1"`, "nodes.json:7: machine added twice: node n1"},
	{"kubectl", "nodes.json", `"3920m"`, `"-1"`, `nodes.json:5: node's capacity: node n1: cpu "-1": must be a number of CPUs such as 2 or 1500m`},
	{"kubectl", "nodes.json", `"3920m"`, `3920`, "nodes.json:5: type: json: cannot unmarshal number into Go struct field .Status.Allocatable of type string"},
	{"kubectl", "nodes.json", `"items"`, `"nodes"`, "nodes.json:10: not JSON: no items: must be the output of kubectl get … -o json"},
	{"kubectl", "nodes.json", `{"metadata": {"name": "n2"}`, `{"metadata": {"name": "n2"`, "nodes.json:7: not JSON: invalid character ']' after object key:value pair"},
	{"kubectl", "pods.json", `"nodeName": "n2", "priority"`, `"nodeName": "n9", "priority"`, `pods.json:12: unknown machine: pod shop/web-a: node "n9" is not in nodes.json`},
	{"kubectl", "pods.json", `"web-a"`, `"web-b"`, "pods.json:12: pod listed twice: pod shop/web-b"},
	{"kubectl", "pods.json", `"waits"`, `"done"`, "pods.json:16: pod listed twice: pod shop/done"},
	{"kubectl", "pods.json", `"waits"`, `""`, "pods.json:16: pod without a name: metadata.name is required"},
	{"kubectl", "pods.json", `"250m"`, `"90"`, "pods.json:12: pod's request: pod shop/web-a: CPU request above the largest machine: 91500m, the largest has 8000m"},
	{"kubectl", "pods.json", `"250m"`, `"much"`, `pods.json:12: pod's request: pod shop/web-a: cpu "much": must be a number of CPUs such as 2 or 1500m`},
	{"kubectl", "pods.json", `"phase": "Pending"`, `"phase": "Odd"`, `pods.json:16: phase: pod shop/waits: "Odd": must be Pending, Running, Succeeded, Failed or Unknown`},
	{"kubectl", "pods.json", "2026-01-03T00:00:00Z", "yesterday", `pods.json:16: type: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`},
}

// TestBadInput makes a fixture invalid at a single location. Strict readers return the location and the
// error. Lenient readers count the error and read to the end.
func TestBadInput(t *testing.T) {
	for _, test := range badInput {
		fixture := fixtures[test.fixture]
		dir := t.TempDir()
		spoil(t, fixture.dir, dir, test.file, test.old, test.new)
		spec := strings.ReplaceAll(fixture.spec, "DIR", dir)
		got := strings.ReplaceAll(readError(spec, Options{}), dir+"/", "")
		if got != test.want {
			t.Errorf("%s, %q for %q:\n got %s\nwant %s", test.file, test.new, test.old, got, test.want)
		}
		if strings.Contains(test.want, "column") {
			continue // a file without its columns is refused in both modes
		}
		if got := readError(spec, Options{Lenient: true}); got != "" {
			t.Errorf("%s, %q for %q, lenient: %s", test.file, test.new, test.old, got)
		}
		r, err := Open(spec, Options{Lenient: true})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, r)
		skipped := r.Report().Skipped
		where, what, _ := strings.Cut(test.want, ": ")
		what, _, _ = strings.Cut(what, ": ")
		if len(skipped) == 0 || skipped[0].Reason != what || filepath.Base(skipped[0].First) != where {
			t.Errorf("%s, %q for %q, lenient: skipped %v, want %s at %s", test.file, test.new, test.old, skipped, what, where)
		}
	}
}

// spoil copies a fixture and changes the first occurrence of a text in one file.
func spoil(t *testing.T, from, to, file, old, new string) {
	t.Helper()
	paths, err := filepath.Glob(from + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == file {
			if !bytes.Contains(text, []byte(old)) {
				t.Fatalf("%s: no %q to spoil", path, old)
			}
			text = bytes.Replace(text, []byte(old), []byte(new), 1)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readError reads a trace to its end and returns the error as text.
func readError(spec string, o Options) string {
	r, err := Open(spec, o)
	if err == nil {
		var e Event
		for err == nil {
			err = r.Next(&e)
		}
		r.Close()
	}
	if err == io.EOF {
		return ""
	}
	return err.Error()
}

// TestBadSpecs: the error for an invalid trace name lists the accepted names.
func TestBadSpecs(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                           `bad trace spec "": must be google2011:DIR, openb:DIR, csv:FILE`,
		"borg":                                       `bad trace spec "borg": must be google2011:DIR`,
		"google2011":                                 `bad trace spec "google2011": no path`,
		"google2011:":                                `bad trace spec "google2011:": no path`,
		"google2011:x,begin=1":                       `bad trace spec "google2011:x,begin=1": option "begin=1": must be start=…`,
		"google2011:x,start=now":                     `bad trace spec "google2011:x,start=now": start "now": must be scheduled or submitted`,
		"csv:x,start=submitted":                      `bad trace spec "csv:x,start=submitted": option "start=submitted": must be none`,
		"openb:testdata/openb,pods=":                 `bad trace spec "openb:testdata/openb,pods=": pods "": must be default`,
		"openb:testdata/openb,pods=../x":             `bad trace spec`,
		"synthetic:days=0":                           `bad trace spec "synthetic:days=0": days "0": must`,
		"synthetic:days=NaN":                         `bad trace spec "synthetic:days=NaN": days "NaN": must`,
		"synthetic:machines=many":                    `bad trace spec "synthetic:machines=many": machines "many": must be a number from 1 to`,
		"synthetic:hours=1":                          `bad trace spec "synthetic:hours=1": option "hours=1": must be machines=…, days=…, seed=…`,
		"semi-real:testdata/google,seed=-1":          `bad trace spec "semi-real:testdata/google,seed=-1": seed "-1": must`,
		"semi-real:/no/such/folder":                  `open /no/such/folder/jobs_2011_imputed.csv: no such`,
		"google2011:/no/such/folder":                 `/no/such/folder: no file machine_events-part-00000-of-….csv`,
		"openb:/no/such/folder":                      `open /no/such/folder/openb_node_list_all_node.csv: no such file`,
		"azure:x,machines=1,cores=8":                 `bad trace spec "azure:x,machines=1,cores=8": no memory: must be azure:FILE,machines=N,cores=N,memory=GIB`,
		"azure:x,machines=0,cores=8,memory=1":        `bad trace spec "azure:x,machines=0,cores=8,memory=1": machines "0": must be a number from 1 to 10000000`,
		"azure:x,machines=1,cores=1.5,memory=1":      `bad trace spec "azure:x,machines=1,cores=1.5,memory=1": cores "1.5": must be a number from 1 to 1024`,
		"azure:/no/such,machines=1,cores=8,memory=1": `open /no/such: no such file`,
		"csv:/no/such/file":                          `open /no/such/file: no such file`,
		"/no/such/file.ctrace":                       `open /no/such/file.ctrace: no such file`,
	} {
		r, err := Open(spec, Options{})
		if err == nil {
			r.Close()
			t.Errorf("%q opens", spec)
		} else if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %s", spec, err, want)
		}
	}
}
