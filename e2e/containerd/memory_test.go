package containerd

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const mib = 1 << 20

// memTotal returns MemTotal in kB from the /proc/meminfo of a container.
func (c *container) memTotal() (n int64, err error) {
	text, err := c.try("cat", "/proc/meminfo")
	if err == nil {
		_, err = fmt.Sscanf(text, "MemTotal: %d kB", &n)
	}
	return n, err
}

// hasMemory fails the test unless a container sees an amount of memory.
func (c *container) hasMemory(step string, bytes int64) {
	c.Helper()
	if n, err := c.memTotal(); err != nil || n != bytes/1024 {
		c.Errorf("%s: MemTotal is %d kB, %v; want %d", step, n, err, bytes/1024)
	}
}

// isStale reports whether candor inspect shows that no process refreshes the view of a container.
func (c *container) isStale() bool {
	c.Helper()
	out, err := exec.Command(c.candor, "inspect", "default/"+c.pod.name+"/"+c.name, "--state-dir", c.path("candor"), "--during=0", "-o", "json").Output()
	var r struct{ Memory struct{ Stale bool } }
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		c.Fatalf("candor inspect: %v\n%s", err, out)
	}
	return r.Memory.Stale
}

// TestMemoryView: a container sees its memory limit from its start, after a resize in place, and while the agent is away. A
// container without a limit sees the machine's memory.
func TestMemoryView(t *testing.T) {
	l := newLab(t)
	p := must[*pod](t)(l.newPod(500, 500, sensitivePod))
	p.memory = 128 * mib
	web := must[*container](t)(p.run("web", 500, 500, true))
	web.hasMemory("started", 128*mib)
	web.seesAs("full", "")
	if err := web.resizeMemory(96 * mib); err != nil {
		t.Fatal(err)
	}
	web.hasMemory("resized", 96*mib)
	l.plugin.kill()
	web.hasMemory("without the agent", 96*mib)
	if !web.isStale() {
		t.Error("candor inspect does not show that no process refreshes the view")
	}
	l.startPlugin()
	l.wait("the agent refreshes the view", l.plugin, func() bool { return !web.isStale() })
	web.hasMemory("after the agent has started again", 96*mib)

	plain := must[*pod](t)(l.newPod(500, 500, sensitivePod))
	free := must[*container](t)(plain.run("free", 500, 500, true))
	free.seesAs("cpu", "")
	if n, err := free.memTotal(); err != nil || n <= 128*1024 {
		t.Errorf("without a limit: MemTotal is %d kB, %v", n, err)
	}
}

// TestMemoryKilledAgent: while the agent is killed and started again, no read of a container fails, and no MemTotal changes.
func TestMemoryKilledAgent(t *testing.T) {
	l := newLab(t)
	const containers, kills, limit = 4, 8, 64 * mib
	var stop atomic.Bool
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop.Store(true)
	var reads atomic.Int64
	var all []*container
	for i := range containers {
		p := must[*pod](t)(l.newPod(100, 100, sensitivePod))
		p.memory = limit
		web := must[*container](t)(p.run(fmt.Sprintf("web%d", i), 100, 100, true))
		all = append(all, web)
		script := "n=0; while [ $n -lt 200 ]; do read -r name total unit </proc/meminfo || exit 1; echo $name $total $unit; n=$((n+1)); done | busybox sort | busybox uniq -c"
		readers.Go(func() {
			for !stop.Load() && !t.Failed() {
				got, err := web.try("sh", "-c", script)
				if want := fmt.Sprintf("200 MemTotal: %d kB", limit/1024); err != nil || strings.Join(strings.Fields(got), " ") != want {
					t.Errorf("%s reads %q, %v; want %q", web.name, got, err, want)
				}
				reads.Add(200)
			}
		})
	}
	for n := 0; (n < kills || reads.Load() == 0) && !t.Failed(); n++ {
		l.wait("the agent refreshes a view", l.plugin, func() bool { return !all[n%containers].isStale() })
		l.plugin.kill()
		l.startPlugin()
	}
	t.Logf("%d reads during at least %d kills", reads.Load(), kills)
}
