package containerd

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// TestObserve: an observer plans and logs all running and new containers, and changes no container, group or file.
func TestObserve(t *testing.T) {
	l := newEngine(t)
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	all := log.cpus()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	l.startPlugin("--observe")
	web := must[*container](t)(must[*pod](t)(l.newPod(500, 500, sensitivePod)).run("web", 500, 500, true))
	huge := must[*container](t)(must[*pod](t)(l.newPod(0, 0, sensitivePod)).run("huge", 250000, 250000, true))
	for _, want := range []string{
		`msg="would plan" container=default/` + log.pod.name + `/log id=\S+ class=flexible`,
		`msg="would plan" container=default/` + web.pod.name + `/web id=\S+ class=sensitive limit=500m`,
		`msg="would refuse" container=default/` + huge.pod.name + "/huge",
	} {
		if output := l.plugin.output(); !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("not in the log: %s\n%s", want, output)
		}
	}
	given := map[*container]cgroup.Settings{}
	for _, c := range []*container{log, web, huge} {
		given[c] = c.unadjusted(all)
	}
	planned := l.planned()
	if g := planned["default/"+web.pod.name+"/web"]; g.Limit != 500 || g.CPUs.Count() != 1 || g.State != "running" {
		t.Errorf("ps shows of web %+v", g)
	}
	if _, is := planned["default/"+huge.pod.name+"/huge"]; is || len(planned) != 2 {
		t.Errorf("ps shows %+v", planned)
	}
	l.plugin.kill()
	l.startPlugin("--observe")
	if again := l.planned(); again["default/"+web.pod.name+"/web"].CPUs != planned["default/"+web.pod.name+"/web"].CPUs {
		t.Errorf("after a restart ps shows %+v; it showed %+v", again, planned)
	}
	for c, had := range given {
		if has := must[cgroup.Settings](t)(c.has()); has != had {
			t.Errorf("%s has %+v; had %+v", c.name, has, had)
		}
	}
	if err := web.resize(700); err != nil {
		t.Error(err)
	}
	if has := must[cgroup.Settings](t)(web.has()); has.CPUs != all || l.planned()["default/"+web.pod.name+"/web"].Limit != 700 {
		t.Errorf("resized, web has %+v, and ps shows %+v", has, l.planned())
	}
	l.wroteNothing()
	l.plugin.kill()
	l.refusesThePlan()
	l.saysRequired("not active")
}

// unadjusted checks that a container started as without a plugin, and returns its settings.
func (c *container) unadjusted(all cpuset.Set) cgroup.Settings {
	c.Helper()
	has := must[cgroup.Settings](c)(c.has())
	if has.CPUs != all {
		c.Errorf("%s has started on CPUs %v of %v", c.name, has.CPUs, all)
	}
	if mounts := c.exec("cat", "/proc/self/mountinfo"); strings.Contains(mounts, "/sys/devices/system/cpu/online") {
		c.Errorf("%s has a view:\n%s", c.name, mounts)
	}
	return has
}

// wroteNothing checks that Candor created no group and wrote no options of the machine.
func (l *lab) wroteNothing() {
	l.Helper()
	if is, err := l.allPods().EngineGroup("run", l.parent+"-run").Exists(); is || err != nil {
		l.Errorf("a group of Candor's own was made (%v)", err)
	}
	if _, err := os.Stat(l.path("host.json")); err == nil {
		l.Error("the machine's options were written")
	}
}

// planned returns the rows of candor ps for the observer's state, by container name.
func (l *lab) planned() map[string]planned {
	l.Helper()
	out, err := exec.Command(l.candor, "ps", "--state-dir", l.path("candor"), "-o", "json").Output()
	var rows []planned
	if err == nil {
		err = json.Unmarshal(out, &rows)
	}
	if err != nil {
		l.Fatalf("candor ps: %v\n%s", err, out)
	}
	byName := map[string]planned{}
	for _, r := range rows {
		byName[r.Namespace+"/"+r.Pod+"/"+r.Container] = r
	}
	return byName
}

type planned struct {
	Namespace, Pod, Container string
	State                     string
	Limit                     int `json:"limitMilli"`
	CPUs                      cpuset.Set
}

// refusesThePlan checks that a plugin refuses the state directory of an observer, so that it does not apply a
// mere plan.
func (l *lab) refusesThePlan() {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, l.candor, "nri", "--config", l.path("nri.yaml"), "--socket", l.path("nri.sock"),
		"--state-dir", l.path("candor"), "--host-options", l.path("host.json")).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "is a plan only") {
		l.Errorf("a plugin on a plan: %v\n%s", err, out)
	}
}

// saysRequired checks that a plugin logs whether containerd refuses containers without it.
func (l *lab) saysRequired(want string) {
	l.Helper()
	l.startPlugin("--state-dir", l.path("true"))
	l.wait("a log line about required_plugins", l.plugin, func() bool { return strings.Contains(l.plugin.output(), "required_plugins=") })
	if output := l.plugin.output(); !strings.Contains(output, "required_plugins="+want) && !strings.Contains(output, `required_plugins="`+want+`" file=`+l.path("containerd.toml")) {
		l.Errorf("want required_plugins %s:\n%s", want, output)
	}
}

// TestRequiredPluginReported: candor nri reports that containerd requires the plugin.
func TestRequiredPluginReported(t *testing.T) {
	l := newEngine(t, "[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n  required_plugins = [\"candor\"]\n")
	l.saysRequired("active")
}
