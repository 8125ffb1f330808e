package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func init() {
	roles["connections"] = openConnections
}

// openConnections opens N connections to an ADDRESS, sends a TEXT on each, and reads nothing.
func openConnections(args []string) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	var all []net.Conn
	for range n {
		c, err := net.DialTimeout("tcp", args[1], 10*time.Second)
		if err != nil {
			continue // refused: the attack is weaker
		}
		c.SetDeadline(time.Now().Add(time.Second))
		io.WriteString(c, args[2])
		all = append(all, c)
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	for _, c := range all {
		c.Close()
	}
}

// A target is candor nri without a runtime, which serves metrics while it waits.
type target struct {
	*lab
	address string
	pid     int
}

var metricsAddress = regexp.MustCompile(`address=https?://(\S+)/metrics`)

// newTarget starts candor nri.
func (l *lab) newTarget(args ...string) *target {
	l.Helper()
	cmd := l.candor(append([]string{"nri", "--socket", filepath.Join(l.dir, "none.sock"), "--host-options", filepath.Join(l.dir, "host.json"), "--metrics", "0"}, args...)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := metricsAddress.FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, log)
			return &target{l, found[1], cmd.Process.Pid}
		}
	}
	l.Fatal("candor nri has ended")
	return nil
}

// attack opens connections from another process.
func (g *target) attack(n int, text string) {
	g.Helper()
	words := role("connections", strconv.Itoa(n), g.address, text)
	g.launch(exec.Command(words[0], words[1:]...))
}

// answers wants an answer in time.
func (g *target) answers(path string) {
	g.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	start := time.Now()
	answer, err := client.Get("http://" + g.address + path)
	if err != nil {
		g.Error(err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if took := time.Since(start); err != nil || answer.StatusCode != http.StatusOK || took > 2*time.Second {
		g.Errorf("%s: %s after %v, %v: %.200s", path, answer.Status, took, err, body)
	}
}

// memory returns the anonymous memory of the target in MiB, now.
func (g *target) memory() int {
	g.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	if err != nil {
		g.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		g.Fatal(err)
	}
	return kib >> 10
}

// sockets returns the number of open sockets of the target.
func (g *target) sockets() (n int) {
	g.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", g.pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		g.Fatal(err)
	}
	for _, file := range files {
		if link, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && strings.HasPrefix(link, "socket:") {
			n++
		}
	}
	return n
}

const (
	healthWithHeader = "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n"
	scrapeRequest    = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
)

// TestHostileConnections: idle connections with large headers, half-open requests, silent clients and clients that read no
// answer take no memory, and keep neither Prometheus nor the kubelet out.
func TestHostileConnections(t *testing.T) { attackMetrics(t, 400) }

// TestHostileManyConnections is TestHostileConnections with 12,000 connections in each attack.
func TestHostileManyConnections(t *testing.T) {
	heavy(t)
	attackMetrics(t, 12000)
}

func attackMetrics(t *testing.T, connections int) {
	g := newLab(t).newTarget()
	g.answers("/metrics")
	before, sockets := g.memory(), g.sockets()
	for _, text := range []string{
		fmt.Sprintf(healthWithHeader, strings.Repeat("a", 12000)), fmt.Sprintf(healthWithHeader, strings.Repeat("a", 6000)),
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ", "", strings.Repeat(scrapeRequest, 20),
	} {
		g.attack(connections, text)
		g.answers("/metrics")
		g.answers("/healthz")
		if now := g.memory(); now > before+16 {
			t.Errorf("%d connections with %.60q: %d MiB, %d before", connections, text, now, before)
		}
		if now := g.sockets(); now > sockets+110 {
			t.Errorf("%d connections with %.60q: %d sockets, %d before", connections, text, now, sockets)
		}
	}
}

// TestHostileReaders: a client that reads slowly and a client that never reads do not delay Prometheus.
func TestHostileReaders(t *testing.T) {
	g := newLab(t).newTarget()
	g.open(strings.Repeat(scrapeRequest, 200)) // never reads
	slow := g.open(strings.Repeat(scrapeRequest, 200))
	go func() {
		for {
			if _, err := slow.Read(make([]byte, 1)); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	for range 20 {
		g.answers("/metrics")
	}
}

// open opens a connection with a small receive buffer and writes a text.
func (g *target) open(text string) net.Conn {
	g.Helper()
	c, err := net.Dial("tcp", g.address)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { c.Close() })
	c.(*net.TCPConn).SetReadBuffer(4096)
	io.WriteString(c, text)
	return c
}

// TestHostileStalls: candor nri closes requests and connections that do not end.
func TestHostileStalls(t *testing.T) {
	heavy(t)
	g := newLab(t).newTarget()
	sockets := g.sockets()
	for _, text := range []string{"", "G", "GET /metrics HTTP/1.1\r\nHost: x\r\n", fmt.Sprintf(healthWithHeader, "a"), strings.Repeat(scrapeRequest, 200)} {
		g.open(text)
	}
	time.Sleep(20 * time.Second)
	if now := g.sockets(); now > sockets {
		t.Errorf("%d sockets after 20 s, %d before", now, sockets)
	}
}
