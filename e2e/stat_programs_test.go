package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// statPrograms print the share of busy time in percent, over 10 seconds. The machine that they see has a single CPU.
var statPrograms = []struct{ name, needs, script string }{
	{"vmstat", "command -v vmstat", `vmstat 10 2 | awk 'END {print $13+$14}'`},
	{"top", "command -v top", `TERM=dumb top -b -d 10 -n 2 | sed 's/,/ /g' | awk '/^%Cpu/ {busy=$2+$4} END {print busy}'`},
	{"node", "command -v node", `node -e 'const sum = () => os.cpus().reduce((s, c) => [s[0]+c.times.user+c.times.sys, s[1]+c.times.idle], [0, 0]); const a = sum(); setTimeout(() => { const b = sum(); console.log(100*(b[0]-a[0])/(b[0]-a[0]+b[1]-a[1])) }, 10000)'`},
	{"mpstat", "command -v mpstat", `LC_ALL=C mpstat 10 1 | awk '/^Average/ && $2 == "all" {print 100-$NF}'`},
	{"psutil", python("import psutil"), python("import psutil; psutil.cpu_percent(); print(psutil.cpu_percent(10))")},
}

// statTolerance bounds the difference between the use inside and outside in percentage points.
const statTolerance = 5

// newStatLab returns a lab for programs that read /proc/stat.
func newStatLab(t *testing.T) *lab {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	l := newLab(t)
	if dir := os.Getenv("CANDOR_VIEW_PROGRAMS"); dir != "" {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	return l
}

// scriptWithBurn returns a command line of candor run for a script beside a busy program, both with half a CPU. The first read of
// /proc/stat wakes the process that refreshes the file.
func scriptWithBurn(name, script string) []string {
	burn := strings.Join(play("burn")[1:], " ")
	script = fmt.Sprintf("%s >/dev/null & cat /proc/stat >/dev/null; sleep 2; echo ready; %s; kill $!", burn, script)
	return []string{"run", "--cpu", "0.5", "--view", "full+stat", "--name", name, "--", "sh", "-c", script}
}

// useOutside returns the CPU use of the only container in percent of a CPU, as candor top reports it. Its 9 seconds are within
// the 10 seconds of the programs.
func useOutside(t *testing.T, l *lab) float64 {
	t.Helper()
	var top struct {
		Containers []struct {
			Use *int `json:"useMilli"`
		}
	}
	text := do(t, l.candor("top", "--once", "--interval", "9s", "-o", "json")).out
	if err := json.Unmarshal([]byte(text), &top); err != nil || len(top.Containers) != 1 || top.Containers[0].Use == nil {
		t.Fatalf("candor top: %s, %v", text, err)
	}
	return float64(*top.Containers[0].Use) / 10
}

// sameUse fails the test unless the busy container has the same use inside and outside.
func sameUse(t *testing.T, inside, outside float64) {
	t.Helper()
	if outside < 20 || math.Abs(inside-outside) > statTolerance {
		t.Errorf("%.1f %% inside, candor top %.1f %%", inside, outside)
	}
	t.Logf("inside %.1f %%, outside %.1f %%", inside, outside)
}

// TestStatPrograms: with the view full+stat, programs report the CPU use of their container, as candor top reports it outside.
func TestStatPrograms(t *testing.T) {
	l := newStatLab(t)
	for _, p := range statPrograms {
		t.Run(p.name, func(t *testing.T) {
			needProgram(t, p.needs)
			n := l.launch(l.candor(scriptWithBurn(p.name, p.script)...))
			if got := n.line(t); got != "ready" {
				t.Fatalf("got %q, want ready", got)
			}
			outside := useOutside(t, l)
			inside, err := strconv.ParseFloat(strings.TrimSpace(n.line(t)), 64)
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			sameUse(t, inside, outside)
			n.end()
		})
	}
	l.empty()
}

// htopBusy matches the meter of the first CPU in htop.
var htopBusy = regexp.MustCompile(`\[[| ]*(\d+\.\d)%\]`)

// TestStatHtop: htop shows the CPU use of its container.
func TestStatHtop(t *testing.T) {
	needProgram(t, "command -v htop")
	l := newStatLab(t)
	t.Setenv("HTOPRC", os.DevNull) // the default settings
	term := onScreen(t, l.candor(scriptWithBurn("htop", "exec htop -d 100")...), 100, 24)
	term.shows("the meter of the CPU", htopBusy.MatchString)
	outside := useOutside(t, l)
	time.Sleep(3 * time.Second) // htop shows the use of the same 10 seconds
	match := htopBusy.FindStringSubmatch(term.text())
	if match == nil {
		t.Fatalf("htop shows no CPU:\n%s", term.text())
	}
	inside, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	sameUse(t, inside, outside)
	term.keys("q")
	l.ok("release", "htop", "--kill")
	l.empty()
}
