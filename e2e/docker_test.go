package e2e

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDocker: at each step of its life, a container sees the CPUs that it has.
func TestDocker(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	if got := d.does("run", "--rm", "--network=none", "--runtime=candor", "--cpus=0.5", "box", "nproc"); got != "1" {
		t.Errorf("--cpus 0.5: nproc prints %s", got)
	}
	d.empty()
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--name=web", "--cpus=1", "-e", "CANDOR_ENV=true", "box", "sleep", "9999")[:12]
	d.does("run", "-d", "--network=none", "--runtime=candor-flexible", "--name=log", "box", "sleep", "9999")
	d.check(id, 1000, 1)
	if got := d.inspect("web"); got.ID != id {
		t.Errorf("candor inspect web shows %s, want %s", got.ID, id)
	}
	if table := d.ok("ps"); !strings.Contains(table, "\nweb ") || strings.Contains(table, id) {
		t.Errorf("candor ps does not show the names of Docker:\n%s", table)
	}
	if environ := d.does("exec", "web", "cat", "/proc/1/environ"); !strings.Contains(environ, "\x00GOMAXPROCS=1\x00") {
		t.Errorf("its environment is %q", environ)
	}
	d.does("update", "--cpus=1.5", "web")
	d.check(id, 1500, 2)
	d.does("update", "--memory=100m", "--memory-swap=100m", "web") // the runtime writes all that it has recorded
	d.check(id, 1500, 2)
	if got := do(t, d.docker("update", "--cpus=900", "web")); got.code == 0 {
		t.Errorf("--cpus 900: %+v", got)
	}
	d.check(id, 1500, 2)
	d.does("restart", "-t=0", "web")
	d.check(id, 1500, 2)
	d.does("update", "--cpus=1", "web")
	d.does("kill", "web")
	d.does("start", "web")
	d.check(id, 1000, 1)
	d.does("rm", "-f", "web", "log")
	d.empty()
}

// TestDockerCgroupParent: a container stays in the group that its user chose, and has the CPUs that it sees.
func TestDockerCgroupParent(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--cpus=1", "--cgroup-parent="+d.parent+"-batch", "box", "sleep", "9999")[:12]
	for _, limit := range []string{"1", "2", "1"} {
		d.does("update", "--cpus="+limit, id)
		r := d.ps()[id]
		if got, want := d.sees(id), strings.Join([]string{limit, limit, r.CPUs.String()}, " "); got != want || r.Exclusive != r.CPUs {
			t.Errorf("limit %s: got %q, want %q; %+v", limit, got, want, r)
		}
	}
	if where := d.does("exec", id, "grep", ":cpuset:", "/proc/1/cgroup"); !strings.Contains(where, d.parent+"-batch/"+id) {
		t.Errorf("its group is %s", where)
	}
	d.does("rm", "-f", id)
	d.empty()
}

// TestDockerCpuset: a container has the CPUs that its user chose, and they do not become exclusive CPUs of
// other containers.
func TestDockerCpuset(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	first, last := strconv.Itoa(d.usable.First()), strconv.Itoa(d.usable.Last())
	d.does("run", "-d", "--network=none", "--runtime=candor-flexible", "--name=log", "box", "sleep", "9999")
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--cpuset-cpus="+first, "--cpus=0.5", "box", "sleep", "9999")
	if got := d.does("exec", id, "grep", "Cpus_allowed_list", "/proc/self/status"); !strings.HasSuffix(got, "\t"+first) {
		t.Errorf("not on CPU %s: %s", first, got)
	}
	for name, r := range d.ps() {
		if r.CPUs.Contains(d.usable.First()) || name == id[:12] {
			t.Errorf("%s: %+v", name, r)
		}
	}
	d.honest()
	d.does("rm", "-f", "log")
	all := strconv.Itoa(d.usable.Count())
	if got := do(t, d.candor(append([]string{"run", "--cpu", all}, play("sees")...)...)); got.code != 2 || !strings.Contains(got.err, "no capacity") {
		t.Errorf("all CPUs: %+v", got)
	}
	d.start([]string{"--cpu", strconv.Itoa(d.usable.Count() - 1), "--name", "web"}, "sleep")
	got := do(t, d.docker("run", "--rm", "--network=none", "--runtime=candor", "--cpuset-cpus="+last, "box", "nproc"))
	if got.code != 125 || !strings.Contains(got.err, "cannot use CPU "+last+": web has CPU") {
		t.Errorf("CPU %s is web's: %+v", last, got)
	}
	d.does("rm", "-f", id)
	d.ok("release", "web", "--kill")
	d.ok(append([]string{"run", "--cpu", all}, play("sees")...)...)
	d.empty()
}

// check compares the CPU counts that a container sees and the kernel's settings with its limit.
func (d *docker) check(id string, limit, cpus int) {
	d.Helper()
	r := d.ps()[id]
	if r.State != "running" || r.Class != "sensitive" || r.Limit != limit || r.CPUs.Count() != cpus {
		d.Errorf("%+v, want a limit of %d on %d CPUs", r, limit, cpus)
	}
	count := map[int]string{1: "1", 2: "2"}[cpus]
	if got, want := d.sees(id), strings.Join([]string{count, count, r.CPUs.String()}, " "); got != want {
		d.Errorf("got %q, want %q", got, want)
	}
	if row := d.inspect(id, "--during=0"); row.Limit != limit || row.Shown != r.CPUs {
		d.Errorf("%+v", row)
	}
	d.honest()
}

// TestDockerRefuses: docker shows one line for a request that is invalid or cannot be granted, and nothing remains.
func TestDockerRefuses(t *testing.T) {
	d := newDocker(t)
	for _, test := range []struct{ flags, want string }{
		{"--cpus=1 -e CANDOR_CLASS=sensitve", `environment CANDOR_CLASS: class "sensitve": must be one of sensitive, flexible`},
		{"-e CANDOR_CLASS=sensitive", "a sensitive container needs a limit"},
		{"--cpus=1 -e CANDOR_ON_RESIZE=exec:reboot", "environment CANDOR_ON_RESIZE: "},
		{"--cpus=1 -e CANDOR_PRESERVE=true", "environment CANDOR_PRESERVE: an image must not set it"},
		{"--cpu-quota=900000000 --cpu-period=1000000", "no capacity"},
		{"--cpus=1 --cpuset-mems=0", "memory nodes without CPUs"},
	} {
		args := append([]string{"run", "--rm", "--name=refused", "--network=none", "--runtime=candor"}, strings.Fields(test.flags)...)
		got := do(t, d.docker(append(args, "box", "nproc")...))
		if got.code != 125 || !strings.Contains(got.err, "candor: refused: "+test.want) || got.out != "" {
			t.Errorf("%s: %+v; want %q", test.flags, got, test.want)
		}
		d.nudge()
		d.empty()
	}
	got := do(t, d.docker("run", "--rm", "--network=none", "--runtime=candor", "--cpus=1", "box", "no-such-program"))
	if got.code != 127 {
		t.Errorf("no program: %+v", got)
	}
	d.empty()
}

// TestDockerKilled: if the engine is killed, its containers keep their CPUs. Candor reaps a container that
// the engine never deletes.
func TestDockerKilled(t *testing.T) {
	d := newDocker(t, "--live-restore")
	d.need(2)
	run := func(name string) string {
		return d.does("run", "-d", "--network=none", "--runtime=candor", "--name="+name, "--cpus=1", "box", "sleep", "9999")[:12]
	}
	web := run("web")
	d.kill()
	d.nudge()
	before := d.ps()[web]
	if before.State != "running" || before.Exclusive.Count() != 1 {
		t.Fatalf("%+v", before)
	}
	d.up()
	d.check(web, 1000, 1)
	d.down()
	d.nudge()
	d.up()
	d.check(web, 1000, 1)
	if after := d.ps()[web]; after.CPUs != before.CPUs || after.PID != before.PID {
		t.Errorf("%+v became %+v", before, after)
	}
	lost := run("lost")
	d.check(lost, 1000, 1)
	pid := d.ps()[lost].PID
	d.kill()
	unix.Kill(pid, unix.SIGKILL)
	gone(t, pid)
	d.nudge()
	if rows := d.ps(); rows[lost].ID != "" || rows[web].CPUs != before.CPUs {
		t.Errorf("%+v", rows)
	}
	d.up()
	d.does("rm", "-f", "web", "lost")
	d.empty()
}
