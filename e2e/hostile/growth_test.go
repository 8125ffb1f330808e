package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/hostile/attacks"
)

// A container grows every file that candor reads of it: the mount table, the lists of processes, threads and nested
// groups, the command line, the status, and the names of its threads. Candor's memory and CPU time stay bounded.

const (
	maxMemory = 64 << 20 // bytes, of each candor process
	// maxCPU bounds the CPU time of a command or scrape. It is several times the usual time, for slow machines.
	maxCPU = 2 * time.Second
)

func init() {
	attacks.Prepare(os.Getenv(roleVariable))
	for _, name := range attacks.Names() {
		roles[name] = func(args []string) { attacks.Run(name, args) }
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An agent is candor nri without a runtime. It serves the metrics of the lab's containers.
type agent struct {
	*lab
	cmd  *exec.Cmd
	base string
}

var servedAt = regexp.MustCompile(`address=(http://\S+)/metrics`)

func (l *lab) startAgent() *agent {
	l.Helper()
	cmd := l.candor("nri", "--metrics", "0", "--socket", filepath.Join(l.dir, "nri.sock"))
	read, write, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	write.Close()
	l.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); read.Close() })
	read.SetReadDeadline(time.Now().Add(time.Minute))
	var log bytes.Buffer
	for part := make([]byte, 4096); ; {
		n, err := read.Read(part)
		log.Write(part[:n])
		if found := servedAt.FindSubmatch(log.Bytes()); found != nil {
			go io.Copy(io.Discard, read)
			return &agent{l, cmd, string(found[1])}
		}
		if err != nil {
			l.Fatalf("candor nri does not serve metrics: %v\n%s", err, log.Bytes())
		}
	}
}

// scrape returns the metrics.
func (a *agent) scrape() string {
	a.Helper()
	answer, err := http.Get(a.base + "/metrics")
	if err != nil {
		a.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.Fatalf("/metrics: %s, %v\n%s", answer.Status, err, text)
	}
	return string(text)
}

// status returns a size in /proc/PID/status, in bytes.
func (a *agent) status(key string) int {
	a.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		a.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return number(a.T, kilobytes) << 10
}

// cpuTime is the CPU time that the agent has used.
func (a *agent) cpuTime() time.Duration {
	a.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.cmd.Process.Pid))
	if err != nil {
		a.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
	return time.Duration(number(a.T, fields[12])+number(a.T, fields[13])) * 10 * time.Millisecond
}

// staysSmall scrapes an agent several times, and checks its memory and CPU time.
func (a *agent) staysSmall() (body string) {
	a.Helper()
	const scrapes = 3
	before := a.cpuTime()
	for range scrapes {
		body = a.scrape()
	}
	used := (a.cpuTime() - before) / scrapes
	a.Logf("candor nri: %d kB at most, %v of CPU time for each scrape", a.status("VmHWM")>>10, used)
	if most := a.status("VmHWM"); most > maxMemory {
		a.Errorf("candor nri has had %d MB resident", most>>20)
	}
	if used > maxCPU {
		a.Errorf("a scrape takes %v of CPU time", used)
	}
	return body
}

// commandsStaySmall runs the commands that inspect every container.
func (l *lab) commandsStaySmall() {
	l.Helper()
	for _, args := range [][]string{{"ps"}, {"map"}, {"audit"}, {"top", "--once"}, {"inspect", "evil0"}} {
		cmd := l.candor(args...)
		got := run(l.T, cmd)
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		memory, used := int(usage.Maxrss)<<10, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
		l.Logf("candor %s: %d kB, %v of CPU time", args[0], memory>>10, used)
		if got.code != 0 || memory > maxMemory || used > maxCPU {
			l.Errorf("candor %s: exit %d, %d MB, %v of CPU time\n%s", args[0], got.code, memory>>20, used, got.errOut)
		}
		if i := strings.IndexAny(got.out+got.errOut, "\x1b\x00"); i >= 0 {
			l.Errorf("candor %s: an escape sequence: %.100q", args[0], (got.out + got.errOut)[i:])
		}
	}
}

// evil starts a container for each attack: a role and its arguments. Those with many mounts have a view, the others have
// no limit that would slow the attack down.
func (l *lab) evil(attacks ...[]string) {
	l.Helper()
	for i, attack := range attacks {
		flags := []string{"--name", fmt.Sprintf("evil%d", i), "--class", "flexible"}
		if attack[0] == "mounts" {
			flags = []string{"--name", fmt.Sprintf("evil%d", i), "--cpu", "0.4", "--view", "full"}
		}
		l.start(flags, attack[0], attack[1:]...)
	}
}

// TestHostileMounts: a view behind a long mount table is unknown, not absent, and a small table still shows its view.
func TestHostileMounts(t *testing.T) {
	l := newLab(t)
	l.evil([]string{"mounts", "2000"}, []string{"mounts", "10"})
	body := l.startAgent().staysSmall()
	l.commandsStaySmall()
	if strings.Contains(body, `candor_container_view_mismatch{class="sensitive",container="evil0"`) {
		t.Error("the view of a container with 2,000 mounts is known")
	}
	if !strings.Contains(body, `candor_container_view_mismatch{class="sensitive",container="evil1",namespace="",pod=""} 0`) {
		t.Errorf("the view of a container with 10 mounts is not known:\n%s", body)
	}
	for _, want := range []string{"candor_container_cpus", "candor_container_cpu_seconds_total"} {
		if !strings.Contains(body, want+`{class="sensitive",container="evil0"`) {
			t.Errorf("%s of the container with 2,000 mounts is missing", want)
		}
	}
}

// TestHostileGrowth runs all attacks at the same time, at a small size.
func TestHostileGrowth(t *testing.T) {
	l := newLab(t)
	l.evil([]string{"mounts", "500"}, []string{"threads", "500"}, []string{"processes", "30"}, []string{"groups", "100"}, []string{"words"})
	l.startAgent().staysSmall()
	l.commandsStaySmall()
	l.ok("run", "--cpu", "0.1", "--", "true")
}

// TestHostileGrowthHeavy runs all attacks at the same time, as large as the machine allows.
func TestHostileGrowthHeavy(t *testing.T) {
	heavy(t)
	l := newLab(t)
	l.evil([]string{"mounts", "10000"}, []string{"threads", "8000"}, []string{"processes", "2000"}, []string{"groups", "3000"}, []string{"words"})
	a := l.startAgent()
	a.staysSmall()
	l.commandsStaySmall()
	l.ok("run", "--cpu", "0.1", "--", "true")
	a.staysSmall()
}
