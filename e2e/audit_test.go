package e2e

import (
	"encoding/json"
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
	if r := d.audited()["candid"]; r.Runtime != "candor" || r.Sees != 1 || r.Differs || r.Gain != "no" {
		t.Errorf("candid: %+v", r)
	}
}

// An audited has the fields of a container in candor audit -o json that the test uses.
type audited struct {
	Name, ID, Runtime, Gain string
	Sees, Threads           int
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
