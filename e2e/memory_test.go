package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/view"
)

// A memoryRow is the memory of a container in candor ps -o json and candor inspect -o json.
type memoryRow struct {
	Limit int64 `json:"limitBytes"`
	Used  int64 `json:"usedBytes"`
	Shown int64 `json:"shownBytes"`
	Stale bool  `json:"stale"`
}

// memory returns the view that is seen and the memory of a container; nil without a limit.
func (l *lab) memory(name string) (seen string, m *memoryRow) {
	l.Helper()
	var r struct {
		ViewSeen string
		Memory   *memoryRow
	}
	if err := json.Unmarshal([]byte(l.ok("inspect", name, "--during=0", "-o", "json")), &r); err != nil {
		l.Fatal(err)
	}
	return r.ViewSeen, r.Memory
}

// needMemory skips the test without the memory controller of cgroups.
func (l *lab) needMemory() {
	l.Helper()
	if !l.tree.HasMemory() {
		l.Skip("the memory controller is not mounted here")
	}
}

// memTotal reads MemTotal in kB from the /proc/meminfo that a process sees.
func memTotal(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/meminfo", pid))
	if err != nil {
		return 0, err
	}
	var n int64
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &n)
	return n, err
}

const mib = 1 << 20

// TestRunMemory: a program sees its memory limit. The limit and the files change with a resize, and the files stay readable
// without candor.
func TestRunMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	run := []string{"run", "--cpu", "0.5", "--memory", "128m"}
	if got := l.ok(append(run, "--", "grep", "-E", "^(MemTotal|HugePages_Total):", "/proc/meminfo")...); strings.Join(strings.Fields(got), " ") != "MemTotal: 131072 kB HugePages_Total: 0" {
		t.Errorf("meminfo is %q", got)
	}
	if got := l.ok("run", "--cpu", "0.5", "--memory", "100m", "--env", "--", "sh", "-c", "echo $GOMEMLIMIT"); strings.TrimSpace(got) != strconv.Itoa(100*mib/10*9) {
		t.Errorf("GOMEMLIMIT is %q", got)
	}
	host, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(host), "\n")
	for _, flags := range [][]string{{"--cpu", "0.5"}, {"--cpu", "0.5", "--memory", "128m", "--view", "cpu"}, {"--cpu", "0.5", "--memory", "128m", "--view", "affinity"}} {
		if got := l.ok(append(append([]string{"run"}, flags...), "--", "head", "-n", "1", "/proc/meminfo")...); strings.TrimSpace(got) != first {
			t.Errorf("%v: meminfo begins with %q, want %q", flags, got, first)
		}
	}
	n := l.start([]string{"--cpu", "0.5", "--memory", "128m", "--memory-swap", "128m", "--name", "web"}, "sleep")
	if seen, m := l.memory("web"); seen != "full" || m == nil || m.Limit != 128*mib || m.Shown != m.Limit || m.Stale || m.Used == 0 {
		t.Errorf("%s, %+v", seen, m)
	}
	if table := l.ok("ps", "-o", "wide"); !strings.Contains(table, " MEMORY ") || !strings.Contains(table, " 128m ") {
		t.Errorf("candor ps -o wide:\n%s", table)
	}
	if got := l.ok("resize", "web", "--memory", "96m", "--memory-swap", "96m"); got != "web: memory 128m -> 96m\n" {
		t.Errorf("candor resize: %q", got)
	}
	if got := do(t, l.candor("resize", "web", "--memory", "64m", "--cpu", "1000")); got.code == 0 || got.out != "" {
		t.Errorf("with a CPU limit that does not fit: %+v", got)
	}
	pid := l.ps()["web"].PID
	if total, err := memTotal(pid); total != 96*1024 || err != nil {
		t.Errorf("after the resizes: %d kB, %v", total, err)
	}
	if _, m := l.memory("web"); m == nil || m.Limit != 96*mib {
		t.Errorf("after a refused resize: %+v", m)
	}
	n.cmd.Process.Kill()
	n.cmd.Wait()
	if _, m := l.memory("web"); m == nil || !m.Stale || m.Shown != 96*mib {
		t.Errorf("without candor run: %+v", m)
	}
	if text := l.ok("inspect", "web", "--during=0"); !strings.Contains(text, "limit 96m") || !strings.Contains(text, "MemAvailable in its /proc/meminfo is that of the start") {
		t.Errorf("candor inspect:\n%s", text)
	}
	if total, err := memTotal(pid); total != 96*1024 || err != nil {
		t.Errorf("without candor run: %d kB, %v", total, err)
	}
	refresh := l.launch(l.candor("view", "refresh"))
	l.eventually("candor view refresh takes over", func() bool { _, m := l.memory("web"); return m != nil && !m.Stale })
	refresh.cmd.Process.Signal(unix.SIGTERM)
	if code := refresh.end(); code != 0 {
		t.Errorf("candor view refresh: exit %d", code)
	}
	l.ok("release", "web", "--kill")
	l.empty()
}

// eventually waits for a condition.
func (l *lab) eventually(event string, is func() bool) {
	l.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.Fatalf("not in time: %s", event)
		}
	}
}

// TestRunMemoryFollows: the free memory that a program reads follows the use of the program.
func TestRunMemoryFollows(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	script := `free() { awk '/^MemFree:/ {print $2}' /proc/meminfo; }; before=$(free); head -c 33554432 /dev/zero >"$0"; i=0
while cat "$0" >/dev/null; after=$(free); [ $((before-after)) -lt 24576 ] && [ $i -lt 60 ]; do sleep 0.5; i=$((i+1)); done; echo $before $after; rm "$0"`
	out := l.ok("run", "--cpu", "0.5", "--memory", "128m", "--", "sh", "-c", script, filepath.Join(t.TempDir(), "file"))
	var before, after int64
	if _, err := fmt.Sscan(out, &before, &after); err != nil || before-after < 24*1024 || before > 128*1024 {
		t.Errorf("%q, %v: 32 MiB of page cache do not show", out, err)
	}
}

// TestViewMemory: candor view shows the memory limit and compares it with the sources.
func TestViewMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	for _, test := range []struct {
		flags  []string
		code   int
		reason string
	}{
		{nil, 0, ""},
		{[]string{"--view", "full+stat"}, 0, ""},
		{[]string{"--view", "cpu"}, 1, "/proc/meminfo reports "},
	} {
		args := append([]string{"view", "--cpu", "0.5", "--memory", "128m", "--check", "-o", "json"}, test.flags...)
		got := do(t, l.candor(args...))
		var r view.Report
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != test.code || r.MemoryLimit != 128*mib || r.IsTrue != (test.code == 0) {
			t.Errorf("%v: %+v, %v", test.flags, got, err)
		}
		if !strings.Contains(strings.Join(r.Reasons, "; "), test.reason) {
			t.Errorf("%v: reasons %q", test.flags, r.Reasons)
		}
	}
	if got := l.ok("view", "--cpu", "0.5", "--memory", "128m"); !strings.Contains(got, "\n/proc/meminfo ") || !strings.Contains(got, "For a limit of 500m and 128 MiB") {
		t.Errorf("candor view:\n%s", got)
	}
}

// TestMemoryResizes: while a program reads its files in a loop, each change of its limit is in the file at once, and each read is
// whole.
func TestMemoryResizes(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	const resizes = 100
	n := l.start([]string{"--cpu", "0.5", "--memory", "128m", "--view", "full+stat", "--name", "web"}, "watch-memory", "131072", "98304")
	pid := l.ps()["web"].PID
	for i := range resizes {
		size := []int64{96, 128}[i%2]
		l.ok("resize", "web", "--memory", fmt.Sprintf("%dm", size))
		if total, err := memTotal(pid); total != size*1024 || err != nil {
			t.Fatalf("resize %d to %d MiB: %d kB, %v", i, size, total, err)
		}
	}
	l.endWatch("web", n)
	l.empty()
}

// endWatch ends a program with the role watch-memory.
func (l *lab) endWatch(name string, n *tenant) {
	l.Helper()
	if err := unix.Kill(l.ps()[name].PID, unix.SIGTERM); err != nil {
		l.Fatalf("%s: %v", name, err)
	}
	if reads, err := strconv.Atoi(n.line(l.T)); err != nil || reads == 0 {
		l.Errorf("%s: %d reads, %v", name, reads, err)
	}
	n.cmd.Wait()
}

// TestRefreshKilled: while candor view refresh is killed and started 50 times, no read of 20 programs fails, no MemTotal changes
// and no counter decreases.
func TestRefreshKilled(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	const programs, kills = 20, 50
	all := map[string]*tenant{}
	for i := range programs {
		name := fmt.Sprintf("web%d", i)
		n := l.start([]string{"--class", "flexible", "--request", "10m", "--cpu", "500m", "--memory", "64m", "--view", "full+stat", "--name", name}, "watch-memory", "65536")
		n.cmd.Process.Kill() // candor run, which refreshes the view
		n.cmd.Wait()
		all[name] = n
	}
	for i := range kills {
		refresh := l.launch(l.candor("view", "refresh"))
		l.eventually("candor view refresh has the views", func() bool {
			is, err := view.IsRefreshed(filepath.Join(l.state, "views", fmt.Sprintf("web%d", i%programs)))
			return is && err == nil
		})
		refresh.cmd.Process.Kill()
		refresh.end()
	}
	refresh := l.launch(l.candor("view", "refresh"))
	for name := range all {
		l.eventually(name+" is refreshed", func() bool { _, m := l.memory(name); return m != nil && !m.Stale })
	}
	for name, n := range all {
		l.endWatch(name, n)
	}
	refresh.cmd.Process.Signal(unix.SIGTERM)
	refresh.end()
	l.ok("run", "--class", "flexible", "--", "true") // the operation reaps the programs
	l.empty()
}

// TestRunStat: /proc/stat has the program's CPUs, and its counters are the program's CPU time.
func TestRunStat(t *testing.T) {
	l := newLab(t)
	script := `own() { awk '{print $14+$15+$16+$17}' /proc/$$/stat; }; busy() { awk '/^cpu /{print $2+$4}' /proc/stat; }
n=$(grep -c '^cpu[0-9]' /proc/stat); before=$(busy); start=$(own); end=$(($(date +%s)+4))
while [ $(date +%s) -lt $end ]; do :; done; used=$(($(own)-start)); i=0
while after=$(busy); [ $((after-before)) -lt $((used*9/10)) ] && [ $i -lt 60 ]; do sleep 0.5; i=$((i+1)); done; echo $n $used $((after-before))`
	out := l.ok("run", "--cpu", "1", "--view", "full+stat", "--", "sh", "-c", script)
	var cpus, used, shown int // CPU time of the shell and of its children, and that in /proc/stat, in ticks of 10 ms
	if _, err := fmt.Sscan(out, &cpus, &used, &shown); err != nil || cpus != 1 || used < 20 || shown < used*9/10 || shown > used*3/2+100 {
		t.Errorf("%q, %v: want 1 CPU with the CPU time of the shell", out, err)
	}
}

// TestDockerMemory: a container of Docker sees its memory limit, and docker update changes the file at once.
func TestDockerMemory(t *testing.T) {
	d := newDocker(t)
	d.needMemory()
	if got := d.does("run", "--rm", "--network=none", "--runtime=candor", "--cpus=0.5", "--memory=128m", "box", "grep", "MemTotal", "/proc/meminfo"); strings.Join(strings.Fields(got), " ") != "MemTotal: 131072 kB" {
		t.Errorf("meminfo has %q", got)
	}
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--name=web", "--cpus=0.5", "--memory=128m", "--memory-swap=128m", "box", "sleep", "9999")[:12]
	if seen, m := d.memory("web"); seen != "full" || m == nil || m.Shown != 128*mib || !m.Stale {
		t.Errorf("%s, %+v", seen, m)
	}
	total := func() string {
		return strings.Join(strings.Fields(d.does("exec", "web", "grep", "MemTotal", "/proc/meminfo")), " ")
	}
	d.does("update", "--memory=96m", "--memory-swap=96m", "web")
	if got := total(); got != "MemTotal: 98304 kB" {
		t.Errorf("after docker update: %q", got)
	}
	refresh := d.launch(d.candor("view", "refresh"))
	d.eventually("candor view refresh takes over", func() bool { _, m := d.memory("web"); return m != nil && !m.Stale })
	d.does("restart", "-t=0", "web")
	if got := total(); got != "MemTotal: 98304 kB" {
		t.Errorf("after a restart: %q", got)
	}
	d.eventually("candor view refresh has the restarted container", func() bool { _, m := d.memory("web"); return m != nil && !m.Stale })
	refresh.cmd.Process.Signal(unix.SIGTERM)
	refresh.end()
	file := d.in("meminfo")
	if err := os.WriteFile(file, []byte("of the user\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := d.does("run", "--rm", "--network=none", "--runtime=candor", "--cpus=0.5", "--memory=128m", "-v", file+":/proc/meminfo:ro", "box", "cat", "/proc/meminfo"); got != "of the user" {
		t.Errorf("a file of the user over /proc/meminfo: %q", got)
	}
	if r := d.ps()[id]; r.State != "running" {
		t.Errorf("%+v", r)
	}
	d.does("rm", "-f", "web")
	d.empty()
}

// TestPodmanMemory: a container of Podman sees its memory limit, after a restart too, and cannot write the file.
func TestPodmanMemory(t *testing.T) {
	p := newPodman(t)
	p.needMemory()
	id := p.does(boxOf("-d", "--memory=128m", "--memory-swap=128m", "box", "sleep", "9999")...)
	defer p.podman("rm", "-f", "-t=0", id)
	for _, step := range []string{"started", "restarted"} {
		if got := strings.Join(strings.Fields(p.does("exec", id, "grep", "-E", "MemTotal|SwapTotal", "/proc/meminfo")), " "); got != "MemTotal: 131072 kB SwapTotal: 0 kB" {
			t.Errorf("%s: %q", step, got)
		}
		if seen, m := p.memory(id[:12]); seen != "full" || m == nil || m.Shown != 128*mib {
			t.Errorf("%s: %s, %+v", step, seen, m)
		}
		p.does("restart", "-t=0", id)
	}
	if got := p.podman("exec", id, "sh", "-c", "echo x >/proc/meminfo"); got.code == 0 {
		t.Errorf("a write to /proc/meminfo: %+v", got)
	}
	p.does("rm", "-f", "-t=0", id)
	p.empty()
}

// TestDockerRefusedMount: if the runtime refuses the files with the memory, the container starts with the files with the CPUs,
// and the log of the engine has the reason.
func TestDockerRefusedMount(t *testing.T) {
	const real = `bundle= log= last=
for word; do
	case $last in --bundle) bundle=$word ;; --log) log=$word ;; esac
	last=$word
done
if ! grep -q /proc/meminfo "$bundle/config.json" 2>/dev/null; then
	exec runc "$@"
fi
sed -i s:/proc/meminfo:/proc/version: "$bundle/config.json" # runc refuses this path, and calls the hook for the end of the container
runc "$@"
code=$?
echo '{"level":"error","msg":"\"/proc/meminfo\" cannot be mounted because it is inside /proc"}' >>"$log"
exit $code`
	w := newWrappedOver(t, real)
	w.needMemory()
	w.writeConfig(50000, func(s ociSpec) { s.of("linux").of("resources")["memory"] = map[string]any{"limit": 128 * mib} })
	w.does("create", "--bundle", w.dir, "a")
	w.does("start", "a")
	w.does("exec", "a", "sh", "-c", "grep -c 'MemTotal: *131072 kB' /proc/meminfo || true")
	out, err := os.ReadFile(filepath.Join(w.dir, "out"))
	if err != nil || !strings.HasSuffix(string(out), "\n0\n") { // after the error of runc
		t.Errorf("%q, %v: the memory of the machine is not in /proc/meminfo", out, err)
	}
	log, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil || !strings.Contains(string(log), "the runtime refuses files of the view full; the container starts with the view cpu") {
		t.Errorf("log %q, %v", log, err)
	}
	if seen, m := w.memory("a"); seen != "cpu" || m == nil || m.Limit != 128*mib || m.Shown != 0 {
		t.Errorf("%s, %+v", seen, m)
	}
	w.honest()
	w.does("delete", "--force", "a")
	w.empty()
}
