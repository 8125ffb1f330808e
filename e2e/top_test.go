package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// inPod changes the state so that a container is a pod's container, created by an engine.
func (l *lab) inPod(id, name string) {
	l.Helper()
	file := filepath.Join(l.state, "state.json")
	text, err := os.ReadFile(file)
	if err != nil {
		l.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		l.Fatal(err)
	}
	for _, g := range state["grants"].([]any) {
		if grant := g.(map[string]any); grant["name"] == id {
			grant["engine"] = map[string]any{"cgroup": l.parent + "/" + id, "pod": "u-1", "name": name}
		}
	}
	if text, err = json.Marshal(state); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		l.Fatal(err)
	}
}

// onHardware skips the test in a guest, where emulated CPUs need minutes for it and the result is the same.
func onHardware(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("is the same in a guest, and slow there")
	}
}

// shop returns a lab with two busy containers: a container of a pod, and a container without a pod.
func shop(t *testing.T) *lab {
	l := newLab(t)
	l.need(2)
	l.start([]string{"--cpu", "0.5", "--name", "web.app-1"}, "burn")
	l.start([]string{"--cpu", "0.2", "--class", "flexible", "--name", "backup"}, "burn")
	l.inPod("web.app-1", "default/web/app")
	return l
}

func TestTop(t *testing.T) {
	onHardware(t)
	l := shop(t)
	term := onScreen(t, l.candor("top", "--interval", "200ms"), 100, 24)
	term.words("candor top", "default/web/app", "backup", "q quit")
	limited := regexp.MustCompile(`default/web/app +sensitive +500m .* [1-9]\d*%  +(\d+%|-)  +\d+%`)
	term.shows("use of the limit, and throttled periods, though a busy machine may leave no time for any", limited.MatchString)
	order := func(first, second string) func(string) bool {
		return func(text string) bool {
			a, b := strings.Index(text, first), strings.Index(text, second)
			return a >= 0 && b >= 0 && a < b
		}
	}
	term.keys("n")
	term.shows("containers by name", order("backup", "default/web/app"))
	term.keys("r")
	term.shows("the other way round", order("default/web/app", "backup"))
	term.keys("/back\r")
	term.shows("one container", func(text string) bool {
		return strings.Contains(text, "filter back") && !strings.Contains(text, "default/web/app")
	})
	term.keys("/\x7f\x7f\x7f\x7fweb\r\r")
	term.words("default/web/app  web.app-1", "500m of", "THREAD")
	term.keys("\x1b")
	term.words("/ filter") // a key right after esc would be the alt key's
	term.keys("+++")       // 250ms, 500ms, 1s
	term.words("every 1s")
	term.keys("?")
	term.words("the other way round")
	term.keys("?p")
	term.words("paused")
	term.keys("p")
	for _, size := range [][2]int{{20, 5}, {300, 80}, {1, 1}, {80, 24}} {
		term.resize(size[0], size[1])
		term.shows("the top line in its width", func(text string) bool {
			line, _, _ := strings.Cut(text, "\n")
			return strings.HasPrefix(line, "candor top  "[:min(size[0], 12)]) && strings.HasSuffix(line, "filter web") == (size[0] > 60)
		})
	}
	term.keys("q")
	if code := term.end(); code != 0 {
		t.Errorf("q: exit code %d", code)
	}
}

// TestTopRestoresTerminal: candor top restores the terminal at each kind of end.
func TestTopRestoresTerminal(t *testing.T) {
	onHardware(t)
	l := shop(t)
	for signal, want := range map[unix.Signal]int{unix.SIGTERM: 143, unix.SIGHUP: 129, unix.SIGINT: 130} {
		term := onScreen(t, l.candor("top"), 80, 24)
		term.words("default/web/app")
		if err := term.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := term.end(); code != want {
			t.Errorf("%v: exit code %d, want %d", signal, code, want)
		}
	}
	term := onScreen(t, l.candor("top"), 80, 24)
	term.words("default/web/app")
	term.keys("\x03")
	if code := term.end(); code != 0 {
		t.Errorf("ctrl-c: exit code %d", code)
	}
}

// TestTopSuspended: Ctrl-Z suspends candor top as a job of the shell and restores the terminal. Later candor
// top continues.
func TestTopSuspended(t *testing.T) {
	onHardware(t)
	l := shop(t)
	shell := exec.Command("/bin/sh", "-c", `set -m; "$@"; echo stopped; read go; fg; echo "ended $?"`, "sh", os.Getenv("CANDOR_BIN"), "top")
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell")
	}
	shell.Env = l.candor().Env
	term := onScreen(t, shell, 80, 24)
	term.words("default/web/app")
	term.keys("\x1a")
	term.words("stopped")
	term.keys("\n")
	term.words("default/web/app", "q quit")
	term.keys("q")
	term.words("ended 0")
	if code := term.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestTopOnce: scripts get the requested number of readings without a terminal.
func TestTopOnce(t *testing.T) {
	l := shop(t)
	for _, args := range [][]string{{"top"}, {"top", "--once"}} {
		out := l.ok(args...)
		if !strings.Contains(out, "default/web/app") || strings.Contains(out, "\x1b") || strings.Contains(out, "q quit") {
			t.Errorf("%v:\n%s", args, out)
		}
	}
	type reading struct {
		DuringSeconds float64
		CPUs          []struct {
			CPU  int
			Busy *int `json:"busyMilli"`
		}
		Containers []struct {
			ID, Namespace, Pod, Container, State string
			CPUs                                 cpuset.Set
			Use                                  *int `json:"useMilli"`
			Periods                              uint64
		}
	}
	lines := strings.Split(strings.TrimSpace(l.ok("top", "-n", "3", "--interval", "300ms", "-o", "json", "--sort", "limit")), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d readings, want 3", len(lines))
	}
	for _, line := range lines {
		var r reading
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		c := r.Containers[0]
		if len(r.Containers) != 2 || c.ID != "web.app-1" || c.Namespace != "default" || c.Pod != "web" || c.Container != "app" ||
			c.State != "running" || c.CPUs.Count() != 1 || c.Use == nil || c.Periods == 0 || r.DuringSeconds <= 0 || len(r.CPUs) == 0 || r.CPUs[0].Busy == nil {
			t.Errorf("%s", line)
		}
	}
}

// TestPodNames: each command shows the containers of pods by their names, and accepts these names.
func TestPodNames(t *testing.T) {
	onHardware(t)
	l := shop(t)
	for _, args := range [][]string{{"ps"}, {"map", "--sample", "0"}, {"map", "-o", "json", "--sample", "0"}, {"map", "-o", "svg", "--sample", "0"}, {"top"}} {
		want := "default/web/app"
		if args[len(args)-1] == "0" && args[1] == "-o" && args[2] == "json" {
			want = `"pod": "web",`
		}
		if out := l.ok(args...); !strings.Contains(out, want) {
			t.Errorf("%v lacks %s:\n%s", args, want, out)
		}
	}
	for _, name := range []string{"web.app-1", "default/web/app", "web/app", "app"} {
		if got := l.inspect(name, "--during", "0").ID; got != "web.app-1" {
			t.Errorf("inspect %s: %s", name, got)
		}
	}
	out := do(t, l.candor("__complete", "inspect", "")).out
	if !strings.Contains(out, "default/web/app\t") || !strings.Contains(out, "backup\t") {
		t.Errorf("completion:\n%s", out)
	}
	got := do(t, l.candor("inspect", "nobody/web/app"))
	if got.code != 2 || !strings.Contains(got.err, "nobody/web/app: id unknown: no container has that name; candor ps lists them") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
