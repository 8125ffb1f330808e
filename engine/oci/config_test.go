package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// given is a configuration with unknown fields at every level that Candor edits.
const given = `{"ociVersion":"1.2.0","future":{"a":[1,2.50,1e3],"b":"<&>\u2028"},
"process":{"args":["web","-x"],"env":["PATH=/bin","OMP_NUM_THREADS=9"],"future":12345678901234567890},
"hooks":{"createRuntime":[{"path":"/first"}],"future":true},
"mounts":[{"destination":"/proc","type":"proc","future":1},{"destination":"/sys/","type":"sysfs"}],
"annotations":{"a":"b"},
"linux":{"cgroupsPath":"/docker/abc","future":null,"maskedPaths":["/proc/kcore","/proc/meminfo"],"readonlyPaths":["/proc/sys"],"resources":{"memory":{"limit":7},"unified":{"cpu.weight":"1","memory.high":"9"},"cpu":{"quota":150000,"period":100000,"burst":5,"future":9}}}}`

// grantOf returns a grant with a limit and a list of CPUs.
func grantOf(limit hybrid.Milli, cpus string) *host.Grant {
	g := &host.Grant{Spec: spec.Spec{Period: 100 * time.Millisecond, View: spec.ViewFull}}
	g.ID, g.Limit, g.Quota, g.Weight = "abc", limit, limit, 2*limit
	g.CPUs, _ = cpuset.Parse(cpus)
	return g
}

// parsed returns a JSON object with numbers as they are written.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// at returns the value of m at a path of field names, separated by spaces.
func at(m map[string]any, path string) any {
	var v any = m
	for word := range strings.FieldsSeq(path) {
		v = v.(map[string]any)[word]
	}
	return v
}

func TestApply(t *testing.T) {
	c, err := parseConfig([]byte(given))
	if err != nil {
		t.Fatal(err)
	}
	err = c.apply(edit{grant: grantOf(1500, "3,7"), groupPath: "/candor/abc", viewDir: "/run/v", mems: "1", env: true, hooks: hooks{hook{Path: "/candor"}, hook{Path: "/candor2"}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := encode(c.all)
	if err != nil {
		t.Fatal(err)
	}
	first := string(text)
	was, is := parsed(t, given), parsed(t, first)
	for _, path := range []string{"ociVersion", "future", "process args", "process future", "hooks future", "annotations a",
		"linux future", "linux maskedPaths", "linux readonlyPaths", "linux resources memory", "linux resources cpu future"} {
		if !reflect.DeepEqual(at(was, path), at(is, path)) {
			t.Errorf("%s: %v became %v", path, at(was, path), at(is, path))
		}
	}
	if !strings.Contains(first, `"<&>\u2028"`) || !strings.Contains(first, "[1,2.50,1e3]") {
		t.Errorf("numbers or escapes were rewritten: %s", first)
	}
	for path, want := range map[string]string{
		"linux cgroupsPath":       `"/candor/abc"`,
		"linux resources cpu":     `{"cpus":"3,7","future":9,"mems":"1","period":100000,"quota":150000,"shares":3072}`,
		"process env":             `["PATH=/bin","OMP_NUM_THREADS=9","GOMAXPROCS=2","PYTHON_CPU_COUNT=2","RAYON_NUM_THREADS=2","TOKIO_WORKER_THREADS=2"]`,
		"hooks createRuntime":     `[{"path":"/first"},{"args":null,"env":null,"path":"/candor"}]`,
		"hooks poststop":          `[{"args":null,"env":null,"path":"/candor2"}]`,
		"annotations":             `{"a":"b"}`,
		"linux resources unified": `{"memory.high":"9"}`,
	} {
		if got, _ := json.Marshal(at(is, path)); string(got) != want {
			t.Errorf("%s:\n%s, want\n%s", path, got, want)
		}
	}
	targets := func(config map[string]any) (all []string) {
		for _, m := range at(config, "mounts").([]any) {
			all = append(all, at(m.(map[string]any), "destination").(string))
		}
		return all
	}
	live := slices.DeleteFunc([]string{"/proc/meminfo", "/proc/swaps"}, func(path string) bool { _, err := os.Stat(path); return err != nil })
	rest := []string{"/proc", "/sys/", "/sys/devices/system/cpu/online", "/proc/cpuinfo"}
	if got := targets(is); !slices.Equal(got, append(rest, live...)) {
		t.Errorf("mounts: %v", got)
	}
	if c, err = parseConfig([]byte(given)); err != nil {
		t.Fatal(err)
	}
	if err := c.apply(edit{grant: grantOf(1500, "3,7"), viewDir: "/run/v", withoutLive: true}); err != nil {
		t.Fatal(err)
	}
	if text, err = encode(c.all); err != nil {
		t.Fatal(err)
	}
	if got := targets(parsed(t, string(text))); !slices.Equal(got, rest) {
		t.Errorf("without the live files: %v", got)
	}
}

// TestBlamesLiveView: an error of the runtime that names a file of the view lets the container start without the file.
func TestBlamesLiveView(t *testing.T) {
	g := grantOf(1500, "3,7")
	log := filepath.Join(t.TempDir(), "log.json")
	for text, want := range map[string]bool{
		`{"level":"error","msg":"cannot mount \"/run/v/meminfo\" to rootfs at \"/proc/meminfo\": \"/proc/meminfo\" cannot be mounted because it is inside /proc"}`: true,
		`{"level":"error","msg":"exec: \"web\": executable file not found in $PATH"}`:                                                                              false,
		`{"level":"error","msg":"mount '/run/v/meminfo' to 'proc/meminfo': Permission denied"}`:                                                                    true,
		`{"level":"error","msg":"exec: \"/proc/meminfo\": permission denied"}`:                                                                                     false,
		`{"level":"warning","msg":"cannot mount /data"}` + "\n" + `{"level":"error","msg":"no /proc/stat and /proc/meminfo"}`:                                      false,
		"": false,
	} {
		if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := Call{Log: log}
		if got := c.blamesLiveView(g, 0); got != want {
			t.Errorf("%q: %t", text, got)
		}
		if got := c.blamesLiveView(g, c.logSize()); got {
			t.Errorf("%q: blamed although it was there before", text)
		}
	}
	for _, file := range []string{"", filepath.Join(log, "none"), "/dev/zero"} {
		c := Call{Log: file}
		if c.blamesLiveView(g, 0) {
			t.Errorf("log file %q", file)
		}
	}
	g.View = spec.ViewCPU
	if err := os.WriteFile(log, []byte("/proc/meminfo"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := Call{Log: log}
	if c.blamesLiveView(g, 0) {
		t.Error("a view without live files")
	}
}

// TestBurstMemsAndWeight: the settings besides CPUs are the burst, the memory nodes of a topology policy, and
// the weight. A weight that differs from the limit is ignored and reported.
func TestBurstMemsAndWeight(t *testing.T) {
	const half = `"quota":50000,"period":100000`
	for _, test := range []struct{ cpu, more, want string }{
		{half, ``, "none false "},
		{half + `,"burst":20000,"shares":1024`, ``, "20ms false "},
		{half + `,"burst":20000`, `"annotations":{"candor.dev/burst":"10ms"}`, "10ms false "},
		{half + `,"burst":20000`, `"annotations":{"candor.dev/burst":"0s"},"process":{"env":["CANDOR_BURST=1ms"]}`, "none false "},
		{half, `"process":{"env":["CANDOR_BURST=none"]}`, "none false "},
		{half, `"annotations":{"candor.dev/burst":"50ms"}`, "50ms false "},
		{half, `"annotations":{"candor.dev/burst":"51ms"}`, "burst 51ms: must be at most 50ms, the quota of a limit of 500m with a period of 100ms"},
		{half, `"process":{"env":["CANDOR_BURST=20000"]}`, `environment CANDOR_BURST: burst "20000": must be none, kernel, quota, auto, or 0s to the quota in whole microseconds, such as 20ms`},
		{half, `"annotations":{"candor.dev/burst":"-1ms"}`, "annotation candor.dev/burst: "},
		{half, `"annotations":{"candor.dev/burst":"1ns"}`, "annotation candor.dev/burst: "},
		{half + `,"burst":-1`, ``, "burst -1µs: must be 0 to "},
		{half + `,"burst":9223372036854775807`, ``, "burst 277h46m40s: must be 0 to "},
		{``, `"annotations":{"candor.dev/burst":"1ms"}`, "burst 1ms: needs a limit"},
		{half, `"annotations":{"candor.dev/burst":"auto"}`, "kernel false "},
		{half, `"annotations":{"candor.dev/burst":"kernel"},"process":{"env":["CANDOR_BURST=1ms"]}`, "kernel false "},
		{half, `"process":{"env":["CANDOR_BURST=quota"]}`, "no process can raise the quota"},
		{half, `"annotations":{"candor.dev/topology":"single-numa"}`, "none true "},
		{half, `"annotations":{"candor.dev/topology":"single-numa","candor.dev/policy":"best-effort"}`, "none false "},
		{half, `"annotations":{"candor.dev/topology":"single-numa","candor.dev/class":"flexible"}`, "none false "},
		{half + `,"shares":512`, ``, "none false cpu.shares 512"},
	} {
		if test.more != "" {
			test.more += ","
		}
		text := `{` + test.more + `"linux":{"resources":{"cpu":{` + test.cpu + `}}}}`
		cfg, err := parseConfig([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		w := Wrapper{Class: hybrid.Sensitive}
		a, _, err := w.requestOf(&Call{ID: "abc"}, cfg)
		got := fmt.Sprint(a.Burst, " ", a.Mems, " ", a.weight)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s: %s, want %q", text, got, test.want)
		}
	}
}

// TestMounted: a file can be masked only if its mount belongs to the container. A shared mount would
// propagate the view to the host.
func TestMounted(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: false,
		`{"mounts":[{"destination":"/sys","type":"sysfs"}]}`:                                                  true,
		`{"mounts":[{"destination":"/sys","type":"bind","options":["rbind","rshared"]}]}`:                     false,
		`{"mounts":[{"destination":"/sys","type":"bind","options":["shared"]}]}`:                              false,
		`{"mounts":[{"destination":"/sys","type":"bind","options":["rbind","rslave"]}]}`:                      true,
		`{"mounts":[{"destination":"/sys","options":["shared"]},{"destination":"/sys/","type":"sysfs"}]}`:     true,
		`{"mounts":[{"destination":"/proc","type":"proc"},{"destination":"/sys/fs/cgroup","type":"cgroup"}]}`: false,
	} {
		c, err := parseConfig([]byte(text))
		if err != nil || c.mounted("/sys") != want {
			t.Errorf("%s: %v (%v), want %v", text, c.mounted("/sys"), err, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "not a JSON object",
		"null":                       "not a JSON object",
		"[]":                         "not a JSON object",
		"{} {}":                      "text after its end",
		`{"linux":3}`:                "linux: ",
		`{"annotations":{"a":1}}`:    "annotations: ",
		`{"linux":{"resources":[]}}`: "resources: ",
		`{"process":{"env":"x"}}`:    "env: ",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := loadConfig(t.TempDir(), configName); err == nil || !strings.Contains(err.Error(), "the bundle must have") {
		t.Errorf("no configuration: %v", err)
	}
}

func TestRequestOf(t *testing.T) {
	const cpu15 = `"linux":{"resources":{"cpu":{"quota":150000,"period":100000}}}`
	tests := []struct {
		text   string
		byName hybrid.Class
		want   string // class, limit, period and view; "-" if Candor does not manage the container; or the error
	}{
		{`{` + cpu15 + `}`, hybrid.Sensitive, "sensitive 1500m 100ms full"},
		{`{` + cpu15 + `}`, hybrid.Flexible, "flexible 1500m 100ms affinity"},
		{`{}`, hybrid.Sensitive, "flexible 0 100ms affinity"},
		{`{"linux":{"resources":{"cpu":{"quota":33300,"period":100000}}}}`, hybrid.Sensitive, "sensitive 333m 100ms full"},
		{`{"linux":{"resources":{"cpu":{"quota":-1}}}}`, hybrid.Sensitive, "flexible 0 100ms affinity"},
		{`{"linux":{"resources":{"cpu":{"quota":30000,"period":20000}}}}`, hybrid.Sensitive, "sensitive 1500m 20ms full"},
		{`{"annotations":{"candor.dev/class":"flexible"},"process":{"env":["CANDOR_CLASS=sensitive"]},` + cpu15 + `}`, hybrid.Sensitive, "flexible 1500m 100ms affinity"},
		{`{"process":{"env":["CANDOR_CLASS=sensitive","CANDOR_PERIOD=10ms","CANDOR_OTHER=1"]},` + cpu15 + `}`, hybrid.Sensitive, "sensitive 1500m 10ms full"},
		{`{"process":{"env":["CANDOR_CLASS=flexible","CANDOR_MOVABLE=true","CANDOR_PRESERVE=false","CANDOR_TOPOLOGY=none"]},` + cpu15 + `}`, hybrid.Sensitive, "flexible 1500m 100ms affinity"},
		{`{"process":{"env":["CANDOR_CLASS=sensitive"]},` + cpu15 + `}`, hybrid.Flexible, "environment CANDOR_CLASS: an image must not set it; use the annotation candor.dev/class"},
		{`{"process":{"env":["CANDOR_PRESERVE=true"]}}`, hybrid.Sensitive, "environment CANDOR_PRESERVE: an image must not set it"},
		{`{"process":{"env":["CANDOR_TOPOLOGY=whole-cores"]}}`, hybrid.Sensitive, "environment CANDOR_TOPOLOGY: an image must not set it"},
		{`{"process":{"env":["CANDOR_MOVABLE=false"]}}`, hybrid.Sensitive, "environment CANDOR_MOVABLE: an image must not set it"},
		{`{"annotations":{"candor.dev/preserve":"false","candor.dev/topology":"none","candor.dev/movable":"false"},"process":{"env":["CANDOR_PRESERVE=true","CANDOR_TOPOLOGY=whole-cores","CANDOR_MOVABLE=false"]}}`, hybrid.Sensitive, "flexible 0 100ms affinity"},
		{`{"annotations":{"candor.dev/edited":"true"}}`, hybrid.Sensitive, `annotation candor.dev/edited: unknown setting "edited"`},
		{`{"linux":{"resources":{"cpu":[]}}}`, hybrid.Sensitive, "linux.resources.cpu: "},
		{`{"linux":{"resources":{"unified":{"cpuset.cpus":"0-1"}}}}`, hybrid.Sensitive, "-"},
		{`{"linux":{"resources":{"unified":{"cpuset.mems":"0"}}}}`, hybrid.Sensitive, "memory nodes without CPUs"},
		{`{"linux":{"resources":{"unified":{"cpu.max":"30000 20000"}}}}`, hybrid.Sensitive, "sensitive 1500m 20ms full"},
		{`{"linux":{"resources":{"cpu":{"quota":50000,"period":100000},"unified":{"cpu.max":"max"}}}}`, hybrid.Sensitive, "flexible 0 100ms affinity"},
		{`{"linux":{"resources":{"cpu":{"period":50000},"unified":{"cpu.max":"75000"}}}}`, hybrid.Sensitive, "sensitive 1500m 50ms full"},
		{`{"linux":{"resources":{"unified":{"cpu.max":"much"}}}}`, hybrid.Sensitive, `cpu.max "much": must be two numbers`},
		{`{"linux":{"resources":{"unified":{"cpu.max":"-5 100000"}}}}`, hybrid.Sensitive, `cpu.max "-5 100000": must be two numbers`},
		{`{"linux":{"resources":{"unified":{"cpu.max":"0"}}}}`, hybrid.Sensitive, `cpu.max "0": must be two numbers`},
		{`{"linux":{"resources":{"unified":{"cpu.max":""}}}}`, hybrid.Sensitive, `cpu.max "": must be two numbers`},
		{`{"linux":{"resources":{"unified":{"cpu.max.burst":"much"}}}}`, hybrid.Sensitive, `cpu.max.burst "much": must be a number`},
		{`{"annotations":{"candor.dev/view":"affinity"},` + cpu15 + `}`, hybrid.Sensitive, "sensitive 1500m 100ms affinity"},
		{`{"linux":{"resources":{"cpu":{"cpus":"0-1"}}}}`, hybrid.Sensitive, "-"},
		{`{"annotations":{"candor.dev/preserve":"true"}}`, hybrid.Sensitive, "-"},
		{`{"annotations":{"candor.dev/class":"sensitive"}}`, hybrid.Flexible, "needs a limit"},
		{`{"annotations":{"candor.dev/klass":"sensitive"}}`, hybrid.Flexible, `annotation candor.dev/klass: unknown setting "klass": must be one of burst, class, env, helpers, movable`},
		{`{"process":{"env":["CANDOR_ENV=yes"]}}`, hybrid.Flexible, `environment CANDOR_ENV: "yes": must be true or false`},
		{`{"process":{"env":["CANDOR_ON_RESIZE=exec:id"]}}`, hybrid.Flexible, "environment CANDOR_ON_RESIZE: "},
		{`{"linux":{"resources":{"cpu":{"mems":"0"}}}}`, hybrid.Flexible, "memory nodes without CPUs"},
		{`{"linux":{"resources":{"cpu":{"quota":"x"}}}}`, hybrid.Flexible, "linux.resources.cpu.quota"},
		{`{"linux":{"resources":{"cpu":{"quota":9223372036854775807,"period":1000}}}}`, hybrid.Sensitive, "sensitive 1024001m 1ms full"},
		{`{"linux":{"resources":{"cpu":{"quota":1,"period":18446744073709551615}}}}`, hybrid.Sensitive, "period"},
		{`{"linux":{"cgroupsPath":"/a/../b"}}`, hybrid.Flexible, "clean path"},
	}
	for _, test := range tests {
		cfg, err := parseConfig([]byte(test.text))
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		w := Wrapper{Class: test.byName}
		a, managed, err := w.requestOf(&Call{ID: "abc"}, cfg)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), test.want) || test.want == "-" {
				t.Errorf("%s: %v, want %q", test.text, err, test.want)
			}
		case !managed:
			if test.want != "-" {
				t.Errorf("%s: not managed, want %q", test.text, test.want)
			}
		default:
			if got := strings.Join([]string{a.Class.String(), a.Limit.String(), a.Period.String(), string(a.View)}, " "); got != test.want {
				t.Errorf("%s: %s, want %q", test.text, got, test.want)
			}
		}
	}
}

func TestGroupPaths(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/docker/abc": "", "system.slice:docker:abc": "", "/libpod_parent/libpod-abc": "",
		"machine.slice:libpod:abc": "", "/default/abc": "", ":nerdctl:abc": "",
		"/batch/abc": "/batch/abc", "/my/docker/abc": "/my/docker/abc", "my.slice:docker:abc": "/my.slice/docker-abc.scope",
		"/": "bad", "../x": "bad", "x:y": "bad", "/a\nb": "bad", "no slice:docker:abc": "bad",
	} {
		e, err := chosenGroup(path)
		if want == "bad" != (err != nil) || err == nil && e.Cgroup != want {
			t.Errorf("%q: %q %v, want %q", path, e.Cgroup, err, want)
		}
	}
}

// TestDriver: the flag of the engine sets the cgroup driver. The form of the path does not.
func TestDriver(t *testing.T) {
	for line, systemd := range map[string]bool{
		"create --bundle /b x": false, "--systemd-cgroup create --bundle /b x": true, "--systemd-cgroup=false create x": false,
		"--cgroup-manager systemd create x": true, "--cgroup-manager=cgroupfs create x": false, "create x --systemd-cgroup": false,
	} {
		c := Parse(strings.Fields(line))
		if checkDriver("", c.Systemd, systemd) != nil || checkDriver("", c.Systemd, !systemd) == nil {
			t.Errorf("%q: wrong cgroup driver", line)
		}
	}
}

// FuzzConfig: a configuration from an engine is accepted or refused. The result of apply is valid JSON with
// the granted CPUs.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(given))
	f.Add([]byte(`{"linux":{"resources":null},"hooks":null,"mounts":[{}]}`))
	f.Add([]byte(`{"process":{"env":["CANDOR_CLASS=sensitive"]},"linux":{"resources":{"cpu":{"quota":1}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err != nil {
			return
		}
		w := Wrapper{}
		if _, _, err := w.requestOf(&Call{ID: "abc"}, c); err != nil {
			return
		}
		if c.apply(edit{grant: grantOf(1500, "0-1"), env: true}) != nil {
			return
		}
		out, err := encode(c.all)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := parseConfig(out); err != nil || !strings.Contains(string(again.resources["cpu"]), `"cpus":"0-1"`) {
			t.Errorf("%q became %q: %v", text, out, err)
		}
	})
}

// TestMemoryIn: the limits of a configuration, of which unified takes precedence.
func TestMemoryIn(t *testing.T) {
	const none = cgroup.NoMemoryLimit
	for text, want := range map[string]*cgroup.MemoryLimits{
		`{}`:                                  nil,
		`{"memory":{}}`:                       nil,
		`{"memory":{"limit":-1}}`:             nil,
		`{"memory":{"limit":0}}`:              nil,
		`{"memory":{"limit":100}}`:            {Memory: 100, Swap: none},
		`{"memory":{"reservation":5}}`:        nil,
		`{"memory":{"limit":100,"swap":150}}`: {Memory: 100, Swap: 50},
		`{"memory":{"limit":100,"swap":-1}}`:  {Memory: 100, Swap: none},
		`{"memory":{"limit":100,"swap":90}}`:  {Memory: 100, Swap: 0},
		`{"memory":{"limit":100},"unified":{"memory.max":"80","memory.swap.max":"7"}}`:    {Memory: 80, Swap: 7},
		`{"memory":{"limit":100},"unified":{"memory.max":"max"}}`:                         nil,
		`{"memory":{"limit":100},"unified":{"memory.high":"60","memory.swap.max":"max"}}`: {Memory: 60, Swap: none},
		`{"unified":{"memory.max":"x","memory.high":"-5"}}`:                               nil,
		`{"unified":{"memory.high":"40\n"}}`:                                              {Memory: 40, Swap: none},
	} {
		var resources object
		if err := json.Unmarshal([]byte(text), &resources); err != nil {
			t.Fatal(err)
		}
		got, err := memoryIn(resources)
		if err != nil || (got == nil) != (want == nil) || got != nil && got.MemoryLimits != *want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{`{"memory":5}`, `{"memory":{"limit":"x"}}`, `{"memory":{"limit":1e30}}`, `{"unified":[]}`} {
		var resources object
		if err := json.Unmarshal([]byte(text), &resources); err != nil {
			t.Fatal(err)
		}
		if got, err := memoryIn(resources); err == nil || !strings.Contains(err.Error(), "linux.resources.") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
