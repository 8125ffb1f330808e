package containerd

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// maxMemory bounds the memory of candor nri on a node with hostile tenants, in bytes.
const maxMemory = 64 << 20

// connections is how many connections to the metrics port stay open, each with a long header.
const connections = 5000

// TestHostileMemory: tenants with default rights attack a node at once, with mount tables of 77 MB, thousands of
// threads with escape sequences in their names, processes, long command lines, annotations and connections. The plugin
// stays small, answers scrapes, and starts containers.
func TestHostileMemory(t *testing.T) {
	if os.Getenv("CANDOR_HOSTILE") == "" {
		t.Skip("heavy: make test-hostile runs it")
	}
	l := newEngine(t)
	l.addAttack()
	l.startPlugin("--metrics", "0")
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	p := l.newProber(l.plugin.output())
	inUserNamespace := []string{"busybox", "unshare", "-Urm"}
	evil := l.evil("mounts", sensitivePod, append(inUserNamespace, "/bin/attack", "mounts", "10000")...)
	many := map[string]string{}
	for i := range 20 {
		many[fmt.Sprintf("example.com/annotation-%d", i)] = strings.Repeat("a", 10_000)
	}
	l.evil("threads", nil, "/bin/attack", "threads", "5000")
	l.evil("processes", many, "/bin/attack", "processes", "500")
	l.evil("words", many, "/bin/attack", "words")
	l.noted()
	defer hold(t, strings.TrimPrefix(p.base, "http://"))()

	before := l.plugin.onCPU()
	for range 5 {
		p.wants(`candor_state_readable`, 1)
	}
	used := (l.plugin.onCPU() - before) / 5
	if v, isKnown := p.value(of("candor_container_view_mismatch", evil, "sensitive")); isKnown {
		t.Errorf("the view behind 10,000 mounts is known: mismatch %v", v)
	}
	must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("web", 100, 100, false))
	most := l.plugin.highWater()
	t.Logf("candor nri: %d kB at most, %v of CPU time for each scrape", most>>10, used)
	if most > maxMemory {
		t.Errorf("candor nri has had %d MB resident", most>>20)
	}
	if used > 2*time.Second {
		t.Errorf("a scrape takes %v of CPU time", used)
	}
}

// addAttack adds the program of the attacks to the image.
func (l *lab) addAttack() {
	l.Helper()
	file := filepath.Join(builtDir(l.T), "attack")
	build := exec.Command("go", "build", "-o", file, "./e2e/hostile/attacks/attack")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		l.Fatalf("go build ./e2e/hostile/attacks/attack: %v\n%s", err, out)
	}
	files := map[string]string{"/bin/attack": file}
	maps.Copy(files, l.files)
	l.importImage(busybox, files)
}

// evil starts a container that attacks, in a pod of its own, and waits until the attack is in place.
func (l *lab) evil(name string, annotations map[string]string, command ...string) *container {
	l.Helper()
	isSensitive, request := annotations["candor.dev/class"] == "sensitive", hybrid.Milli(100)
	if isSensitive {
		request = 1000
	}
	p := must[*pod](l)(l.newPod(1000, request, annotations))
	c := must[*container](l)(p.run(name, 1000, request, isSensitive, command...))
	l.wait("the attack "+name, l.plugin, func() bool {
		text, err := os.ReadFile(filepath.Join(l.path("logs"), name+".log"))
		return err == nil && bytes.Contains(text, []byte("ready"))
	})
	return c
}

// hold opens connections to a server and sends the beginning of a request on each. It returns a function that closes
// them.
func hold(t *testing.T, address string) (release func()) {
	t.Helper()
	var open []net.Conn
	for range connections {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err != nil {
			break // the server bounds them
		}
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("a", 12_000))
		open = append(open, conn)
	}
	return func() {
		for _, conn := range open {
			conn.Close()
		}
	}
}

// highWater returns the peak resident memory of a process in bytes.
func (d *daemon) highWater() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Process.Pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.Atoi(kilobytes)
	return n << 10
}
