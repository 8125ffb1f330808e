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

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cpumap"
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
time=2026-11-27T14:00:03Z level=planted msg="connected to planted.example.com:443 for plantedcustomer" planted=1 class=plantedclass "planted key"=x cpus=planted
{"msg":"login of planted\u002duser from plant\u0065d","planted":{"user":["planted"]},"cpu":"planted"}
`

// startLog is the begin of a log on a node with containerd, and of candor nri --give-back.
const startLog = `time=2026-11-27T14:00:00.123Z level=INFO msg=metrics address=http://127.0.0.1:9464/metrics
time=2026-11-27T14:00:00.123Z level=INFO msg="machine options changed" file=/etc/candor/host.json reserved=0-1 minShared=500m
time=2026-11-27T14:00:00.123+01:00 level=WARN msg="new containers without a connected plugin start on all CPUs" required_plugins="not active" file=/etc/containerd/config.toml "add to refuse them"="[plugins.'io.containerd.nri.v1.nri'.default_validator] enable = true, required_plugins = [\"candor\"]"
time=2026-11-27T14:00:00.123Z level=INFO msg=synchronized pods=12 running=30
time=2026-11-27T14:00:00.123Z level=INFO msg="given back" container=planted/web/web setting=quota before=20ms after=100ms
time=2026-11-27T14:00:00.123Z level=WARN msg="waiting for the runtime" socket=/var/run/nri/nri.sock reason="dial unix /var/run/nri/nri.sock: connect: connection refused" check="start containerd"
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
	node, err := hybrid.NewNode(machine, hybrid.Options{Reserved: cpuset.Of(3), MinShared: 500})
	if err != nil {
		t.Fatal(err)
	}
	m := cpumap.FromNode(node)
	m.Foreign = []cpumap.Foreign{{Name: "plantedspace/planted-foreign/x", ID: "planted-foreign-id", Runtime: "docker", Group: "/docker/planted-foreign-id"}}
	m.Limits = []cpumap.GroupLimit{{Group: "/planted-limit", Limit: 1000, Containers: []string{"planted-web"}}}
	m.Reservations = []cpumap.Reservation{{Group: "/planted-partition", CPUs: cpuset.Of(3)}}
	return &Contents{
		Candor: "v1.2.3", Created: time.Unix(1e9, 0), Host: "plantedhost", Topology: machine, State: saved, Map: m.Document(),
		Options: &host.NodeOptions{Reserved: cpuset.Of(3), MinShared: 500},
		NRI:     []byte(`{"version":1,"metricsWebConfig":"/etc/planted/web.yml","stateDir":"/run/candor","plantedField":1,"defaults":{"class":"planted-class"},"node":{"reserved":"0-1"},"namespaces":{"plantedspace":{"class":"sensitive"}}}`),
		Log:     []byte(logText),
		Doctor: &doctor.Report{Status: doctor.Failed, Checks: []doctor.Row{
			{ID: "cgroup-quota", Group: "cgroups", Status: doctor.Warning, Found: "group /planted-slice has a quota", Next: "plantedhost: remove it"},
			{ID: "state", Group: "candor", Status: doctor.Failed, Found: `grant 3 ("planted-broken"): named twice`},
			{ID: "cgroup-cpus", Found: "group /planted.slice/candor has a quota of 150ms per 100ms", Next: "mount -o remount,rw /srv/planted dir/plantedß"},
			{ID: "nri-plugins", Found: `containerd starts plugins of /opt/planted: "10-planted-policy", 20-planted`},
			{ID: "kubelet-cpu-manager", Found: "/srv/planted/kubelet/config.yaml: yaml: unmarshal errors: line 3: cannot unmarshal !!str `planted` into bool"},
			{ID: "nri-enabled", Found: "containerd (/etc/containerd/config.toml): NRI is off by default in containerd 2.4.2, with a quota of 20%"},
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
	if was, is := keys(plain["state.json"]+plain["map.json"]), keys(files["state.json"]+files["map.json"]); !slices.Equal(was, is) {
		t.Errorf("the fields\n%q\nbecame\n%q", was, is)
	}
	if again := archived(t, true); fmt.Sprint(again) != fmt.Sprint(files) {
		t.Error("a second archive of the same contents differs")
	}
}

var field = regexp.MustCompile(`"[^"]*":`)

// keys returns the names of all fields in JSON, sorted.
func keys(text string) []string {
	found := field.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

// TestReplay: candor plan accepts the machine and the operations of an archive.
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

// TestAnonymizedStart: the words of candor and the paths of the machine remain in the log of a start, and in the report of the doctor.
func TestAnonymizedStart(t *testing.T) {
	n := newNames(true)
	if got := n.alias("web") + n.text(" web: no quota of web-1 on web"); got != "name-1 name-1: no quota of name-2 on name-1" {
		t.Errorf("a name that is a word of candor: %s", got)
	}
	n = newNames(true)
	want := strings.NewReplacer("planted/web/web", "name-1/name-2/name-2", "127.0.0.1:9464", "name-3").Replace(startLog)
	if got := string(n.log([]byte(startLog))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, text := range []string{
		"containerd (/etc/containerd/config.toml): NRI is off by default in containerd 2.4.2",
		"Linux 6.1.0-9-amd64, Linux 6.18.44, 150ms per 100ms",
		"/sys/fs/cgroup is mounted read-only",
		"/run/candor has 99.5 MiB and 10000 inodes free",
		"open /etc/candor/nri.yaml: no such file or directory",
		"Candor's parent group can have CPUs 0-1, and lacks CPUs 2-3",
		"candor nri (process 1234567) is version v1.0.0, this candor is v1.2.3",
	} {
		if got := n.text(text); got != text {
			t.Errorf("%s\nbecame\n%s", text, got)
		}
	}
}

// TestAddresses: no part of an address remains.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"listen on 10.1.2.3:9464: address already in use":     "listen on name-1 address already in use",
		"listen on [2001:db8:1::15]:9464":                     "listen on [name-1]:9464",
		"dial tcp: lookup x.plantedhost.example on 10.0.0.2.": "dial tcp: lookup x.name-1.example on name-2",
		"Linux 6.18.44-planted.1, --planted, planted:":        "Linux 6.18.44-name-1.1, --name-1, name-1:",
		"v10.1.2.3 10-1-2-3 account 123456789012":             "name-1 name-2 account name-3",
	} {
		if got := newNames(true).text(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// TestDoctorTexts: the texts of a report on this machine retain most of their words.
func TestDoctorTexts(t *testing.T) {
	r := doctor.Run(doctor.New("/"), nil)
	n := newNames(true)
	anonymized := n.doctor(&r)
	var all, replaced int
	for i := range r.Checks {
		all += len(word().FindAllString(r.Checks[i].Found+" "+r.Checks[i].Next, -1))
		replaced += strings.Count(anonymized.Checks[i].Found+" "+anonymized.Checks[i].Next, "name-")
	}
	if replaced > all/20 {
		t.Errorf("%d of %d words are replaced: %+v", replaced, all, anonymized)
	}
}

// TestReadNRI: a file that is no YAML with keys of text is an error in one line.
func TestReadNRI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nri.yaml")
	if _, err := ReadNRI(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"version: 1\nreserve: [a]\n": `{"reserve":["a"],"version":1}`,
		"":                           "null",
		"version: [\n":               "",
		"- a\n":                      "",
		"node: {1: 2}\n":             "",
		"version: {a: b\nc: d: e\n":  "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadNRI(file)
		if want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
		if want == "" && (err == nil || !strings.HasPrefix(err.Error(), file+": ") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// TestReadLog: a file is read from a line in its last 4 MiB.
func TestReadLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if _, err := ReadLog(t.Context(), file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadLog(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("a directory: %v", err)
	}
	const line = "time=x msg=y\n"
	long := strings.Repeat(line, 2*maxLog/len(line))
	for text, want := range map[string]string{"a\n": "a\n", "": "", long: strings.Repeat(line, maxLog/len(line))} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadLog(t.Context(), file); string(got) != want || err != nil {
			t.Errorf("of %d bytes: %d bytes, %v, want %d", len(text), len(got), err, len(want))
		}
	}
}

// TestTail: the last bytes remain, and the memory is bounded.
func TestTail(t *testing.T) {
	for _, test := range []struct {
		writes []string
		want   string
	}{
		{[]string{"a\n", "b\n"}, "a\nb\n"},
		{[]string{"aaaa\n", "bbbb\n"}, "aaaa\nbbbb\n"},
		{[]string{"aaaa\n", "bbbb\n", "c\n"}, "bbbb\nc\n"},
		{[]string{strings.Repeat("a", 50) + "\nbb\nc\n"}, "bb\nc\n"},
		{[]string{"x\n", strings.Repeat("a", 50)}, strings.Repeat("a", 10)},
		{nil, ""},
	} {
		out := tail{limit: 10}
		for _, text := range test.writes {
			if n, err := out.Write([]byte(text)); n != len(text) || err != nil || len(out.last) > 20 {
				t.Errorf("%q: %d, %v, %d bytes", text, n, err, len(out.last))
			}
		}
		if got := string(out.text()); got != test.want {
			t.Errorf("%q: %q, want %q", test.writes, got, test.want)
		}
	}
}

// FuzzLog: no log makes the reader panic, no planted name remains, and each line remains a line.
func FuzzLog(f *testing.F) {
	for line := range strings.Lines(logText + startLog) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := newNames(true)
		out := string(n.log([]byte(text)))
		if strings.Count(out, "\n") > strings.Count(text, "\n")+1 || strings.Contains(strings.ToLower(out), nameSecret) {
			t.Errorf("%q became %q", text, out)
		}
	})
}
