package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

func TestUpdateCheck(t *testing.T) {
	tests := []struct {
		line   string
		period time.Duration // period of the grant
		limit  int64
		want   string // error; "" for none
	}{
		{"update --cpu-quota 50000 x", 100 * time.Millisecond, 500, ""},
		{"update --cpu-quota 50000 --cpu-period 25000 x", 20 * time.Millisecond, 2000, ""},
		{"update --cpu-quota 50000 x", 20 * time.Millisecond, 0, "without a period, and the container's period is 20ms"},
		{"update --cpu-quota -1 x", 20 * time.Millisecond, 0, ""},
		{"update --memory 7 x", 20 * time.Millisecond, 1500, ""},
		{"update --cpuset-cpus 3,7 x", 20 * time.Millisecond, 1500, ""},
		{"update --cpuset-cpus 4 x", 20 * time.Millisecond, 0, "Candor selects its CPUs"},
		{"update --cpuset-mems 0 x", 20 * time.Millisecond, 0, "Candor selects its CPUs"},
		{"update --cpu-quota x x", 20 * time.Millisecond, 0, "--cpu-quota \"x\": must be a number of microseconds"},
		{"update --cpu-period -1 x", 20 * time.Millisecond, 0, "--cpu-period \"-1\": must be a number of microseconds"},
		{"update --cpu-burst 5000 x", 20 * time.Millisecond, 1500, ""}, // equal to the present value
		{"update --cpu-burst 6000 x", 20 * time.Millisecond, 0, "fixed at the creation"},
		{"update --cpu-burst 0 x", 20 * time.Millisecond, 0, "a burst of 0 microseconds"},
		{"update --cpu-period 50000 x", 20 * time.Millisecond, 0, "a period of 50000 microseconds without a quota"},
		{"update --cpu-period 20000 x", 20 * time.Millisecond, 1500, ""}, // equal to the present value
	}
	for _, test := range tests {
		c := Parse(strings.Fields(test.line))
		g := grantOf(1500, "3,7")
		g.Period, g.Burst.Time = test.period, 5*time.Millisecond
		u, err := c.updateOf(g)
		switch {
		case err != nil:
			if test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.line, err, test.want)
			}
		case test.want != "" || int64(u.limit(g)) != test.limit:
			t.Errorf("%s: limit %v, want %d, %q", test.line, u.limit(g), test.limit, test.want)
		}
	}
}

// TestIsPeriodAlone: engines repeat the default period when they update a container without a limit. Such an
// update is not a change of the period.
func TestIsPeriodAlone(t *testing.T) {
	for _, test := range []struct {
		limit  hybrid.Milli
		period uint64
		want   bool
	}{{1500, 100000, true}, {0, 100000, false}, {0, 50000, true}, {0, 20000, false}, {0, 0, false}} {
		g := grantOf(test.limit, "0")
		g.Period = 20 * time.Millisecond
		u := update{amount: amount{Period: test.period}}
		if got := u.isPeriodAlone(g); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestUpdateLine: the runtime gets the update on its standard input. CPU values are those of the grant, and
// values in unified that would overwrite them are removed.
func TestUpdateLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	text := `{"memory":{"limit":7},"cpu":{"quota":5,"burst":1},"unified":{"cpu.max":"150000 100000","memory.high":"1"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Parse([]string{"update", "-r", file, "x"})
	u, err := c.readUpdate()
	if err != nil || u.Quota != 150000 || u.Period != 100000 || u.Burst == nil || *u.Burst != 1 {
		t.Fatalf("%+v %v", u, err)
	}
	args, input, err := u.line(&c, grantOf(1500, "3,7"), "0-1")
	if err != nil || strings.Join(args, " ") != "update --resources - x" {
		t.Fatalf("%q %v", args, err)
	}
	defer input.Close()
	var got [1000]byte
	n, err := input.Read(got[:])
	want := `{"cpu":{"cpus":"3,7","mems":"0-1","period":100000,"quota":150000,"shares":3072},"memory":{"limit":7},"unified":{"memory.high":"1"}}`
	if err != nil || string(got[:n]) != want {
		t.Errorf("%s (%v), want %s", got[:n], err, want)
	}
}

// fakeRuntime returns a runtime that no test may call: a call would replace this process.
func fakeRuntime(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runc")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 77\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRefusedWithoutRuntimeCall: a command that Candor cannot handle is refused before the real runtime is
// called.
func TestRefusedWithoutRuntimeCall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to open the machine's control groups")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ line, want string }{
		{"restore --bundle /b web", "restore: Candor does not support checkpoints"},
		{"update --cpu-quota 50000 web", "state.json"},
		{"create --bundle /b web", "cannot read /proc/self/exe"},
	} {
		w := Wrapper{Host: host.Options{StateDir: dir, Config: filepath.Join(dir, "host.json")}, Runtime: fakeRuntime(t)}
		w.Host.Cgroup.Parent = "/candor-oci-test"
		c := Parse(strings.Fields(test.line))
		if _, err := w.do(&c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.line, err, test.want)
		}
	}
}

// TestHooks: the hooks get the options of this process as flags. Their environment has no CANDOR_ variables.
func TestHooks(t *testing.T) {
	t.Setenv("CANDOR_STATE_DIR", "/else")
	w := Wrapper{Host: host.Options{StateDir: "/s", Config: "/c"}, Self: []string{"/candor", "internal-oci"}}
	w.Host.Cgroup.Parent, w.Host.Cgroup.Driver = "/p", "cgroupfs"
	h := w.hooks(preserved, "web", "0-1")
	const flags = "candor internal-oci --state-dir /s --config /c --cgroup-parent /p --cgroup-driver cgroupfs "
	for got, want := range map[string]string{
		strings.Join(h.started.Args, " "): flags + "preserved web 0-1",
		strings.Join(h.stopped.Args, " "): flags + "stopped web",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if strings.Contains(strings.Join(h.started.Env, " "), "CANDOR_") {
		t.Errorf("%q", h.started.Env)
	}
}
