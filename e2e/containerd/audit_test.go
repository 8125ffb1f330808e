package containerd

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// An audited has the fields of candor audit -o json that the test uses.
type audited struct {
	Name, Runtime, Gain string
	Sees, Threads       int
	Limit               int `json:"limitMilli"`
	Differs             bool
}

// audit runs candor audit and returns the lab's containers by name.
func (l *lab) audit(flags ...string) map[string]audited {
	l.Helper()
	out, err := exec.Command(l.candor, append([]string{"audit", "-o", "json"}, flags...)...).Output()
	var rows []struct {
		audited
		Group string
	}
	if err == nil {
		err = json.Unmarshal(out, &rows)
	}
	if err != nil {
		l.Fatalf("candor audit: %v\n%s", err, out)
	}
	byName := map[string]audited{}
	for _, r := range rows {
		if strings.HasPrefix(r.Group, l.parent+"/") {
			byName[r.Name] = r.audited
		}
	}
	return byName
}

// TestAudit: candor audit lists the containers of a node without Candor by their pod names, and omits pod sandboxes.
func TestAudit(t *testing.T) {
	l := newEngine(t)
	p := must[*pod](t)(l.newPod(0, 0, nil))
	log := must[*container](t)(p.run("log", 0, 0, false))
	must[*container](t)(p.run("web", 500, 500, false, "sh", "-c", "sleep 1000 & sleep 1000 & sleep 1000"))
	all := log.cpus()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	name := func(c string) string { return "default/" + p.name + "/" + c }
	var rows map[string]audited
	for end := time.Now().Add(time.Minute); rows[name("web")].Threads < 3 && time.Now().Before(end); rows = l.audit() {
		time.Sleep(20 * time.Millisecond) // the shell has yet to start its programs
	}
	if r := rows[name("web")]; r.Runtime != strings.ToLower(l.name) || r.Sees != all.Count() || r.Limit != 500 || !r.Differs || r.Threads < 3 || r.Gain == "no" {
		t.Errorf("web: %+v", rows)
	}
	if len(rows) != 1 {
		t.Errorf("of one that differs: %+v", rows)
	}
	if rows := l.audit("--all"); rows[name("log")].Limit != 0 || rows[name("log")].Sees != all.Count() || len(rows) != 2 {
		t.Errorf("all: %+v", rows)
	}
}
