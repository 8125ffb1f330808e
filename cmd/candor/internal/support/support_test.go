package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// Secrets of the test. Names must not be in an anonymized archive, arguments and values of variables in no archive.
const (
	nameSecret     = "planted"
	argumentSecret = "hunter2"
)

// stateText is a state of an earlier version, which has arguments and the command of on-resize.
const stateText = `{"version":1,"boot":"b","grants":[
{"name":"planted-web","state":"running","creator":{"pid":1,"start":1},"main":{"pid":2,"start":2},"sinceMs":5,
 "request":{"class":"sensitive","policy":"strict","limit":1500,"topology":"prefer","periodUs":100000,"view":"full","onResize":"exec:curl -u hunter2 x","command":"/opt/planted-server --password hunter2"},
 "cpus":"0-1","exclusive":"0","fractions":[{"cpu":1,"milli":500}],"quota":1500,"weight":1500,"wishKept":true},
{"name":"plantedpod.log-0a1b2c3d","state":"running","creator":{"pid":1,"start":1},"main":{"pid":0,"start":0},"sinceMs":5,
 "request":{"class":"flexible","policy":"strict","limit":2000,"guarantee":250,"topology":"prefer","periodUs":100000,"view":"affinity","onResize":"none","command":"plantedspace/plantedpod/log"},
 "cpus":"1-3","exclusive":"","quota":2000,"weight":250,"wishKept":true,
 "engine":{"cgroup":"/kubepods/planted-pod7/planted-id","pod":"planted-uid","sandbox":"planted-sandbox","name":"plantedspace/plantedpod/log"}}]}`

const logText = `time=2026-11-27T14:00:00.000Z level=INFO msg="planned plantedspace/plantedpod/log" container=plantedpod.log-0a1b2c3d id=planted-id cpus=1-3 took=1.5ms
time=2026-11-27T14:00:01.000Z level=ERROR msg="cannot adopt planted-old: no such cgroup" container=planted-old error="open /sys/fs/cgroup/planted: no such file" "found quota"=20ms
{"time":"2026-11-27T14:00:02Z","level":"WARN","msg":"reset CPUs","container":"planted-json","found":1}
Started plantedhost: a line of another program
`

func contents(t *testing.T) *Contents {
	t.Helper()
	machine, err := topology.Parse("core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(stateText), 0o644); err != nil {
		t.Fatal(err)
	}
	saved, err := state.NewStore(dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := cpumap.FromNode(node)
	m.Foreign = []cpumap.Foreign{{Name: "plantedspace/planted-foreign/x", ID: "planted-foreign-id", Runtime: "docker", Group: "/docker/planted-foreign-id"}}
	m.Limits = []cpumap.GroupLimit{{Group: "/planted-slice", Limit: 1000, Containers: []string{"planted-web"}}}
	m.Reservations = []cpumap.Reservation{{Group: "/planted-partition", CPUs: cpuset.Of(3)}}
	return &Contents{
		Candor: "v1.2.3", Created: time.Unix(1e9, 0), Host: "plantedhost", Topology: machine, State: saved, Map: m.Document(),
		Options: &host.NodeOptions{Reserved: cpuset.Of(3), MinShared: 500},
		NRI:     []byte("version: 1\nmetricsWebConfig: /etc/planted/web.yml\nnode: {reserved: 0-1}\nnamespaces:\n  plantedspace: {class: sensitive}\n"),
		Log:     []byte(logText),
		Doctor: &doctor.Report{Status: doctor.Failed, Checks: []doctor.Row{
			{ID: "cgroup-quota", Group: "cgroups", Status: doctor.Warning, Found: "group /planted-slice has a quota", Next: "plantedhost: remove it"},
			{ID: "state", Group: "candor", Status: doctor.Failed, Found: `grant 3 ("planted-broken"): named twice`},
		}},
		Missing: map[string]string{"x": "cannot read plantedspace/plantedpod/log"},
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for from := tar.NewReader(unzipped); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		name, isInFolder := strings.CutPrefix(header.Name, Folder+"/")
		if err != nil || !isInFolder || header.Typeflag != tar.TypeReg {
			t.Fatalf("%v: %+v", err, header)
		}
		files[name] = string(text)
	}
}

func archived(t *testing.T, anonymize bool) map[string]string {
	t.Helper()
	var packed bytes.Buffer
	if err := Write(&packed, contents(t), anonymize); err != nil {
		t.Fatal(err)
	}
	return unpack(t, packed.Bytes())
}

// TestFiles: the archive has the documented files, and its layout has a version.
func TestFiles(t *testing.T) {
	for _, anonymize := range []bool{false, true} {
		files := archived(t, anonymize)
		var names []string
		for name := range files {
			names = append(names, name)
		}
		slices.Sort(names)
		if want := []string{"doctor.json", "host.json", "index.json", "map.json", "nri.json", "nri.log", "plan.jsonl", "state.json", "topology.json"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		var i index
		if err := json.Unmarshal([]byte(files["index.json"]), &i); err != nil || i.Layout != Layout || i.Candor != "v1.2.3" || i.Anonymized != anonymize || i.Missing["x"] == "" {
			t.Errorf("%v: %s", err, files["index.json"])
		}
	}
}

// TestNoArguments: no archive has arguments of programs or commands of on-resize.
func TestNoArguments(t *testing.T) {
	for _, anonymize := range []bool{false, true} {
		for name, text := range archived(t, anonymize) {
			if strings.Contains(text, argumentSecret) {
				t.Errorf("anonymize %t: %s has an argument:\n%s", anonymize, name, text)
			}
		}
	}
	if text := archived(t, false)["state.json"]; !strings.Contains(text, `"onResize": "exec"`) || !strings.Contains(text, "planted-server") {
		t.Errorf("the state lacks the program or the method of on-resize:\n%s", text)
	}
}

// TestAnonymize: an anonymized archive has no name, and a name has the same replacement in all files.
func TestAnonymize(t *testing.T) {
	plain, files := archived(t, false), archived(t, true)
	for name, text := range files {
		if strings.Contains(strings.ToLower(text), nameSecret) {
			t.Errorf("%s has a name:\n%s", name, text)
		}
	}
	for _, name := range []string{"state.json", "plan.jsonl", "map.json", "nri.json", "nri.log", "doctor.json", "index.json"} {
		if !strings.Contains(plain[name], nameSecret) {
			t.Errorf("without --anonymize, %s has no name: the test proves nothing", name)
		}
	}
	var id struct{ ID string }
	if err := json.Unmarshal([]byte(strings.SplitN(files["plan.jsonl"], "\n", 2)[0]), &id); err != nil || !regexp.MustCompile(`^name-\d+$`).MatchString(id.ID) {
		t.Fatalf("%v: %+v", err, id)
	}
	for name, want := range map[string]string{"state.json": `"name": "` + id.ID + `"`, "map.json": `"` + id.ID + `"`} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %s:\n%s", name, want, files[name])
		}
	}
	for name, want := range map[string]string{
		"nri.log":     "cpus=1-3 took=1.5ms",
		"doctor.json": " has a quota",
		"nri.json":    `"class": "sensitive"`,
		"state.json":  `"cpus": "0-1"`,
		"map.json":    `"runtime": "docker"`,
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
	if again := archived(t, true); fmt.Sprint(again) != fmt.Sprint(files) {
		t.Error("a second archive of the same contents differs")
	}
}

// TestReplay: candor plan accepts the machine and the operations of an archive, and grants what the node granted.
func TestReplay(t *testing.T) {
	files := archived(t, true)
	m := new(topology.Machine)
	if err := json.Unmarshal([]byte(files["topology.json"]), m); err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := planio.Session{Node: node}
	var granted []string
	err = s.Run(strings.NewReader(files["plan.jsonl"]), func(r planio.Result) error {
		if !r.OK {
			t.Errorf("%+v", r)
		}
		granted = append(granted, r.ID)
		return nil
	})
	if err != nil || len(granted) != 2 {
		t.Errorf("%v: granted %q", err, granted)
	}
	if want := "candor plan --machine topology.json --reserved 3 --min-shared 500m --algorithm candor plan.jsonl"; !strings.Contains(files["index.json"], want) {
		t.Errorf("index.json lacks %q:\n%s", want, files["index.json"])
	}
}

// TestMissingParts: an archive without any part is valid.
func TestMissingParts(t *testing.T) {
	var packed bytes.Buffer
	if err := Write(&packed, &Contents{}, true); err != nil {
		t.Fatal(err)
	}
	if files := unpack(t, packed.Bytes()); len(files) != 1 || files["index.json"] == "" {
		t.Errorf("%q", files)
	}
	if err := Write(failing{}, contents(t), false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a full disk: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestReadLog: a file is read with a bound.
func TestReadLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if _, err := ReadLog(t.Context(), file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadLog(t.Context(), file); string(text) != "a\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// FuzzLog: no log makes the reader panic, and no word that begins with the name's prefix remains.
func FuzzLog(f *testing.F) {
	for line := range strings.Lines(logText) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := newNames(true)
		out := string(n.log([]byte(text)))
		if strings.Count(out, "\n") > strings.Count(text, "\n")+1 {
			t.Errorf("%q became %q", text, out)
		}
	})
}
