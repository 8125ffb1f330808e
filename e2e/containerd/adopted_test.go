package containerd

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// A seenCPUs has the fields of a container in the JSON of candor ps, inspect, map, top and audit that describe the CPUs that it sees.
type seenCPUs struct {
	Pod, Container  string // in a pod
	Name            string // in candor audit: namespace/pod/container
	View, ViewSeen  string // in ps and inspect
	Sees, SeesFiles int
	SeesNote        string
	Shown           cpuset.Set // in inspect
}

// commands returns the container as each command shows it, by command.
func (c *container) commands() map[string]seenCPUs {
	c.Helper()
	name := "default/" + c.pod.name + "/" + c.name
	shown := map[string]seenCPUs{}
	for command, flags := range map[string][]string{"ps": nil, "inspect": {name, "--during=0"}, "map": {"--sample=0"}, "top": {"--once"}, "audit": {"--all", "--helpers=0"}} {
		args := append([]string{command, "-o", "json", "--state-dir", c.path("candor"), "--cgroup-parent", c.parent + "-run"}, flags...)
		out, err := exec.Command(c.candor, args...).Output()
		var list []seenCPUs
		var object struct {
			seenCPUs
			Containers []seenCPUs
		}
		if err == nil && strings.HasPrefix(string(out), "[") {
			err = json.Unmarshal(out, &list)
		} else if err == nil {
			err = json.Unmarshal(out, &object)
			list = slices.Concat(object.Containers, []seenCPUs{object.seenCPUs})
		}
		if err != nil {
			c.Fatalf("candor %s: %v\n%s", command, err, out)
		}
		for _, s := range list {
			if s.Name == name || s.Pod == c.pod.name && s.Container == c.name {
				shown[command] = s
			}
		}
	}
	return shown
}

// seesAs checks that each command shows the CPU counts that programs in the container find.
func (c *container) seesAs(viewSeen, note string) {
	c.Helper()
	count := func(command ...string) int {
		n, err := strconv.Atoi(c.exec(command...))
		if err != nil {
			c.Fatal(err)
		}
		return n
	}
	affinity, files := count("nproc"), count("grep", "-c", "^processor", "/proc/cpuinfo")
	shown := c.commands()
	for _, command := range []string{"ps", "inspect", "map", "top", "audit"} {
		s := shown[command]
		if s.Sees != affinity || s.SeesFiles != files {
			c.Errorf("candor %s shows %d/%d (%+v); programs find %d and %d", command, s.Sees, s.SeesFiles, s, affinity, files)
		}
		if command != "audit" && ((s.SeesNote == "") != (note == "") || !strings.Contains(s.SeesNote, note)) {
			c.Errorf("candor %s has the note %q; want %q", command, s.SeesNote, note)
		}
	}
	if s := shown["inspect"]; s.ViewSeen != viewSeen || s.Shown.Count() != files {
		c.Errorf("candor inspect shows the view %q and CPUs %v; want %q and %d CPUs", s.ViewSeen, s.Shown, viewSeen, files)
	}
}

// TestAdoptedWithoutView: a sensitive container that was created while candor nri was away has no view mounted. Each command and the metric
// show this until the container starts again. A flexible container sees its CPUs only in the affinity.
func TestAdoptedWithoutView(t *testing.T) {
	l := newEngine(t)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	p := must[*pod](t)(l.newPod(1000, 1000, sensitivePod))
	web := must[*container](t)(p.run("web", 1000, 1000, true))
	l.startPlugin("--metrics", "0")
	l.noted()
	metrics := l.newProber(l.plugin.output())
	web.seesAs("affinity", "restart it to mount the view")
	log.seesAs("affinity", "")
	metrics.wants(of("candor_container_view_mismatch", web, "sensitive"), 1)
	if err := web.stop(); err != nil {
		t.Fatal(err)
	}
	web = must[*container](t)(p.run("web", 1000, 1000, true))
	l.noted()
	web.seesAs("cpu", "") // the container has no memory limit
	web.sees()
	metrics.wants(of("candor_container_view_mismatch", web, "sensitive"), 0)
}
