package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAuditOfDocker: candor audit lists containers of Docker by name, with the visible CPUs of runc's
// containers and the CPUs of candor's.
func TestAuditOfDocker(t *testing.T) {
	d := newDocker(t)
	if d.usable.Count() < 2 {
		t.Skip("needs 2 CPUs: with one all see what they have")
	}
	d.does("run", "-d", "--name", "plain", "--network", "none", "--cgroup-parent", d.parent+"-docker", "--cpus", "0.5", "box",
		"sh", "-c", "sleep 1000 & sleep 1000")
	d.does("run", "-d", "--name", "candid", "--network", "none", "--runtime", "candor", "--cpus", "0.5", "box", "sleep", "1000")
	// The shell has yet to start its first program.
	plain := d.audited()["plain"]
	for end := time.Now().Add(time.Minute); plain.Threads < 2 && time.Now().Before(end); plain = d.audited()["plain"] {
		time.Sleep(20 * time.Millisecond)
	}
	if r := plain; r.Runtime != "docker" || len(r.ID) != 64 || r.Sees != d.usable.Count() || r.Limit != 500 || !r.Differs || r.Threads < 2 || r.Gain == "no" {
		t.Errorf("plain: %+v", r)
	}
	if r := d.audited()["candid"]; r.Runtime != "candor" || r.Sees != 1 || r.SeesFiles != 1 || r.Differs || r.Gain != "no" {
		t.Errorf("candid: %+v", r)
	}
}

// TestMapOfDocker: candor map shows Docker's containers as foreign, by name, and points to candor audit.
func TestMapOfDocker(t *testing.T) {
	d := newDocker(t)
	d.does("run", "-d", "--name", "plain", "--network", "none", "--cgroup-parent", d.parent+"-docker", "--cpus", "0.5", "box", "sleep", "1000")
	for _, want := range []string{"No containers of Candor.", "candor audit", " plain ", "docker", " 500m "} {
		if out := d.ok("map", "--sample=0"); !strings.Contains(out, want) {
			t.Errorf("candor map lacks %q:\n%s", want, out)
		}
	}
	d.does("run", "-d", "--name", "candid", "--network", "none", "--runtime", "candor", "--cpus", "0.5", "box", "sleep", "1000")
	var m struct{ Foreign []audited }
	if err := json.Unmarshal([]byte(d.ok("map", "--sample=0", "-o", "json")), &m); err != nil {
		t.Fatal(err)
	}
	foreign := map[string]audited{}
	for _, f := range m.Foreign {
		foreign[f.Name] = f
	}
	if f := foreign["plain"]; f.Runtime != "docker" || f.Sees != d.usable.Count() || f.Limit != 500 {
		t.Errorf("plain: %+v", f)
	}
	if f, isThere := foreign["candid"]; isThere {
		t.Errorf("a container of Candor is foreign: %+v", f)
	}
}

// TestRecordOfDocker: candor record finds a container of Docker by the beginning of its ID, and the recording has its name.
func TestRecordOfDocker(t *testing.T) {
	d := newDocker(t)
	id := d.does("run", "-d", "--name", "plain", "--network", "none", "--cgroup-parent", d.parent+"-docker", "box", "sleep", "1000")
	file := filepath.Join(t.TempDir(), "usage")
	for _, name := range []string{"plain", id[:12]} {
		d.ok("record", "-o", file, "--container", name, "--duration", "200ms")
		if s := recording(t, file); s == nil || len(s.Groups) != 1 || s.Groups[0].Name != "plain" {
			t.Errorf("--container %s: %+v", name, s)
		}
	}
}

// TestPsOfPaused: candor ps shows a container that docker has paused as paused.
func TestPsOfPaused(t *testing.T) {
	d := newDocker(t)
	id := d.does("run", "-d", "--name", "web", "--network", "none", "--runtime", "candor", "--cpus", "0.5", "box", "sleep", "1000")[:12]
	for _, step := range []struct{ command, want string }{{"pause", "paused"}, {"unpause", "running"}} {
		d.does(step.command, "web")
		if got := d.ps()[id].State; got != step.want {
			t.Errorf("after docker %s: %s, want %s", step.command, got, step.want)
		}
	}
}

// An audited has the fields of a container in candor audit -o json that the test uses.
type audited struct {
	Name, ID, Runtime, Gain string
	Sees, SeesFiles         int
	Threads                 int
	Limit                   int `json:"limitMilli"`
	Differs                 bool
}

// audited returns the containers of this machine by name, from candor audit.
func (l *lab) audited() map[string]audited {
	l.Helper()
	var rows []audited
	if err := json.Unmarshal([]byte(l.ok("audit", "--all", "-o", "json")), &rows); err != nil {
		l.Fatal(err)
	}
	byName := map[string]audited{}
	for _, r := range rows {
		byName[r.Name] = r
	}
	return byName
}
