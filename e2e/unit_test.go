package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/deploy"
)

// A unit is a systemd unit of Candor on a machine with systemd.
type unit struct {
	*testing.T
	name string
}

// newUnit installs the unit with the given text and changed lines.
func newUnit(t *testing.T, text, name string, change map[string]string) *unit {
	t.Helper()
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("changes services and the state of the machine: for a guest with systemd")
	}
	u := &unit{t, name}
	for key, value := range change {
		line := regexp.MustCompile(`(?m)^` + key + `=.*$`)
		if !line.MatchString(text) {
			t.Fatalf("the unit has no %s", key)
		}
		text = line.ReplaceAllLiteralString(text, key+"="+value)
	}
	if err := os.WriteFile("/run/systemd/system/"+name+".service", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		do(t, exec.Command("systemctl", "stop", name))
		os.Remove("/run/systemd/system/" + name + ".service")
	})
	u.does("daemon-reload")
	return u
}

// does runs systemctl, which must succeed.
func (u *unit) does(args ...string) string {
	u.Helper()
	got := do(u.T, exec.Command("systemctl", args...))
	if got.code != 0 {
		u.Fatalf("systemctl %s: %+v\n%s", strings.Join(args, " "), got, do(u.T, exec.Command("systemctl", "status", u.name)).out)
	}
	return strings.TrimSpace(got.out)
}

func (u *unit) property(name string) string {
	u.Helper()
	return u.does("show", "--value", "--property", name, u.name)
}

// until waits for a condition.
func (u *unit) until(what string, is func() bool) {
	u.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			u.Fatalf("waited a minute for %s\n%s", what, do(u.T, exec.Command("systemctl", "status", u.name)).out)
		}
	}
}

// TestUnit: candor runs with the restrictions of the unit, waits for the runtime, restarts after a kill, and
// keeps its state.
func TestUnit(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	u := newUnit(t, deploy.Unit, "candor-unit-test", map[string]string{
		"ExecStart": os.Getenv("CANDOR_BIN") + " nri --socket /run/no-runtime.sock --metrics " + address})
	u.does("start", "--no-block", u.name)
	answers := func(page string, want int) bool {
		r, err := http.Get("http://" + address + page)
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == want
	}
	u.until("/healthz", func() bool { return answers("/healthz", 200) })
	if !answers("/readyz", 503) || !answers("/metrics", 200) || u.property("ActiveState") != "activating" {
		t.Errorf("without a runtime it is %s; want it activating, not ready, and answering", u.property("ActiveState"))
	}
	if got := u.property("MemoryMax"); got != "134217728" {
		t.Errorf("systemd limits the memory to %s bytes, want 128 MiB", got)
	}
	first := u.property("MainPID")
	u.does("kill", "--signal", "KILL", u.name)
	u.until("another process", func() bool {
		now := u.property("MainPID")
		return now != first && now != "0" && answers("/healthz", 200)
	})
	u.does("stop", u.name)
	if _, err := os.Stat("/run/candor"); err != nil {
		t.Errorf("the state has gone with the service: %v", err)
	}
}

// TestUnitsRights: the unit can write to other groups and to the state. The rest of the machine is read-only.
// A system call outside of the filter fails, and the process continues.
func TestUnitsRights(t *testing.T) {
	const group = "/sys/fs/cgroup/candor-unit-rights"
	script := fmt.Sprintf(`/bin/sh -c 'echo 7 >%s/cgroup.max.depth && echo here >/run/candor/file && test -n "$$(nice -n 1 true 2>&1)" && ! echo there >/usr/file && ! echo 1 >/proc/sys/vm/swappiness'`, group)
	u := newUnit(t, deploy.Unit, "candor-unit-rights", map[string]string{"Type": "oneshot", "Restart": "no", "ExecStart": script})
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Rmdir(group) })
	u.does("start", u.name)
	if has, err := os.ReadFile(group + "/cgroup.max.depth"); err != nil || string(has) != "7\n" {
		t.Errorf("the group has %q, %v", has, err)
	}
}

// TestViewUnit: candor view refresh runs with the restrictions of its unit. It refreshes the view of a program whose candor run
// has ended, also after a kill of the service.
func TestViewUnit(t *testing.T) {
	candor := os.Getenv("CANDOR_BIN")
	u := newUnit(t, deploy.ViewUnit, "candor-view-test", map[string]string{"ExecStart": candor + " view refresh"})
	run := exec.Command(candor, "run", "--cpu", "0.5", "--memory", "64m", "--view", "full+stat", "--name", "viewed", "--", "sleep", "600")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		run.Process.Kill()
		run.Wait()
		do(t, exec.Command(candor, "release", "viewed", "--kill"))
	}()
	inspect := func() (r struct {
		PIDs   []int
		Memory *memoryRow
	}) {
		got := do(t, exec.Command(candor, "inspect", "viewed", "--during=0", "-o", "json"))
		_ = json.Unmarshal([]byte(got.out), &r) // the program has not started yet
		return r
	}
	u.until("the program", func() bool { r := inspect(); return r.Memory != nil && len(r.PIDs) > 0 })
	run.Process.Kill()
	run.Wait()
	u.does("start", u.name)
	for _, limit := range []int64{48, 64} {
		u.until("a refreshed view", func() bool { m := inspect().Memory; return m != nil && !m.Stale })
		if got := do(t, exec.Command(candor, "resize", "viewed", "--memory", fmt.Sprintf("%dm", limit))); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		if total, err := memTotal(inspect().PIDs[0]); total != limit*1024 || err != nil {
			t.Errorf("limit %d MiB: MemTotal is %d kB, %v", limit, total, err)
		}
		u.does("kill", "--signal", "KILL", u.name)
	}
	u.until("a refreshed view", func() bool { m := inspect().Memory; return m != nil && !m.Stale })
	if got := u.property("MemoryMax"); got != "100663296" {
		t.Errorf("systemd limits the memory to %s bytes, want 96 MiB", got)
	}
}
