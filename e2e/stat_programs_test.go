package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// statPrograms print the share of busy time of the machine in percent, over 10 seconds. The machine that they see has a single CPU.
var statPrograms = []struct{ name, needs, script string }{
	{"vmstat", "command -v vmstat", `vmstat 10 2 | awk 'END {print $13+$14}'`},
	{"top", "command -v top", `TERM=dumb top -b -d 10 -n 2 | sed 's/,/ /g' | awk '/^%Cpu/ {busy=$2+$4} END {print busy}'`},
	{"node", "command -v node", `node -e 'const sum = () => os.cpus().reduce((s, c) => [s[0]+c.times.user+c.times.sys, s[1]+c.times.idle], [0, 0]); const a = sum(); setTimeout(() => { const b = sum(); console.log(100*(b[0]-a[0])/(b[0]-a[0]+b[1]-a[1])) }, 10000)'`},
	{"mpstat", "command -v mpstat", `LC_ALL=C mpstat 10 1 | awk '/^Average/ && $2 == "all" {print 100-$NF}'`},
	{"psutil", python("import psutil"), python("import psutil; psutil.cpu_percent(); print(psutil.cpu_percent(10))")},
}

// TestStatPrograms: with the view full+stat, programs report the CPU use of their container, as candor inspect reports it outside.
func TestStatPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	l := newLab(t)
	if dir := os.Getenv("CANDOR_VIEW_PROGRAMS"); dir != "" {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	const tolerance = 5 // percentage points
	for _, p := range statPrograms {
		t.Run(p.name, func(t *testing.T) {
			if exec.Command("sh", "-c", p.needs).Run() != nil {
				t.Skip("the program is not installed")
			}
			// The first read wakes the process that refreshes the file.
			script := fmt.Sprintf("%s >/dev/null & cat /proc/stat >/dev/null; sleep 2; echo ready; %s; kill $!", strings.Join(play("burn"), " "), p.script)
			n := l.launch(l.candor("run", "--cpu", "0.5", "--view", "full+stat", "--name", p.name, "--", "sh", "-c", script))
			if got := n.line(t); got != "ready" {
				t.Fatalf("got %q, want ready", got)
			}
			before, start := l.inspect(p.name, "--during=0").Group.UsageSeconds, time.Now()
			time.Sleep(9 * time.Second)
			outside := 100 * (l.inspect(p.name, "--during=0").Group.UsageSeconds - before) / time.Since(start).Seconds()
			inside, err := strconv.ParseFloat(strings.TrimSpace(n.line(t)), 64)
			if err != nil || math.Abs(inside-outside) > tolerance {
				t.Errorf("%s reports %.1f %%, %v; candor inspect %.1f %%", p.name, inside, err, outside)
			}
			t.Logf("inside %.1f %%, outside %.1f %%", inside, outside)
			n.end()
		})
	}
	l.empty()
}
