package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A wrapped calls candor-runc as an engine does, with a bundle. It can make the real runtime wait at any of
// its commands.
type wrapped struct {
	*lab
	dir    string
	config string // of the bundle
}

func newWrapped(t *testing.T) *wrapped { return newWrappedOver(t, "exec runc \"$@\"") }

// newWrappedOver returns a wrapped whose real runtime is a script that calls runc.
func newWrappedOver(t *testing.T, real string) *wrapped {
	t.Helper()
	return newWrappedIn(t, newLab(t), real)
}

// newWrappedIn returns a wrapped in a lab.
func newWrappedIn(t *testing.T, l *lab, real string) *wrapped {
	t.Helper()
	for _, program := range []string{"runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs runc and busybox: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "candor-runc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clearEngine(l, dir) })
	w := &wrapped{l, dir, filepath.Join(dir, "config.json")}
	boxArchive(t, dir)
	// The root in the bundle's configuration is relative to the bundle, as for containers of nerdctl.
	script := fmt.Sprintf("#!/bin/sh\nfor word; do if rm '%[1]s/stop-'\"$word\" 2>/dev/null; then echo >'%[1]s/here'; read go <'%[1]s/go'; fi; done\n%[2]s\n", dir, real)
	err = os.WriteFile(filepath.Join(dir, "real"), []byte(script), 0o755)
	for _, name := range []string{"here", "go"} {
		if err == nil {
			err = unix.Mkfifo(filepath.Join(dir, name), 0o600)
		}
	}
	for _, name := range []string{"candor-runc", "candor-flexible-runc"} {
		if err == nil {
			err = os.Symlink(os.Getenv("CANDOR_BIN"), filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	w.writeConfig(100000)
	return w
}

// An ociSpec has the parts of a container's configuration that tests change.
type ociSpec map[string]any

func (s ociSpec) of(key string) ociSpec { return s[key].(map[string]any) }

// writeConfig writes the default configuration of runc with a quota, in microseconds per 100 ms, and with changes.
func (w *wrapped) writeConfig(quota int, changes ...func(ociSpec)) {
	w.Helper()
	os.Remove(w.config)
	if got := do(w.T, exec.Command("runc", "spec", "--bundle", w.dir)); got.code != 0 {
		w.Fatalf("runc spec: %+v", got)
	}
	text, err := os.ReadFile(w.config)
	var all ociSpec
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		w.Fatal(err)
	}
	all["root"] = map[string]any{"path": "box", "readonly": true}
	all.of("process")["terminal"], all.of("process")["args"] = false, []string{"sleep", "9999"}
	all.of("linux").of("resources")["cpu"] = map[string]any{"quota": quota, "period": 100000}
	for _, change := range changes {
		change(all)
	}
	if text, err = json.Marshal(all); err == nil {
		err = os.WriteFile(w.config, text, 0)
	}
	if err == nil {
		err = os.Chmod(w.config, 0o640)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// command returns a command of candor-runc or candor-flexible-runc.
func (w *wrapped) command(name string, args ...string) *exec.Cmd {
	cmd := w.candor()
	cmd.Path = filepath.Join(w.dir, name)
	cmd.Args = append([]string{name, "--root", filepath.Join(w.dir, "root"), "--log", filepath.Join(w.dir, "log")}, args...)
	cmd.Env = append(cmd.Env, "CANDOR_RUNTIME="+filepath.Join(w.dir, "real"))
	// Files, since the container keeps them.
	out, err := os.OpenFile(filepath.Join(w.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { out.Close() })
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// does runs candor-runc, which must succeed.
func (w *wrapped) does(args ...string) {
	w.Helper()
	if got := do(w.T, w.command("candor-runc", args...)); got.code != 0 {
		text, _ := os.ReadFile(filepath.Join(w.dir, "out"))
		w.Fatalf("candor-runc %s: exit %d\n%s", strings.Join(args, " "), got.code, text)
	}
}

// stopAt starts candor-runc and returns when the real runtime waits at a command.
func (w *wrapped) stopAt(command string, cmd *exec.Cmd) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "stop-"+command), nil, 0o600); err != nil {
		w.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := os.ReadFile(filepath.Join(w.dir, "here")); err != nil { // read to the end, so that the writer does not block
		w.Fatal(err)
	}
}

// goOn lets the waiting real runtime continue.
func (w *wrapped) goOn() {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "go"), []byte("\n"), 0); err != nil {
		w.Fatal(err)
	}
}

// bundles returns the names of Candor's bundles.
func (w *wrapped) bundles() string {
	all, _ := filepath.Glob(filepath.Join(w.state, "bundles", "*"))
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return strings.Join(all, " ")
}

// TestDockerBundle: several containers can be created from a bundle, even at once. The bundle's configuration
// at the time of each create applies, and candor-runc does not change the bundle.
func TestDockerBundle(t *testing.T) {
	w := newWrapped(t)
	w.need(2)
	before, _ := os.ReadFile(w.config)
	first := w.command("candor-runc", "create", "--bundle", w.dir, "a")
	w.stopAt("create", first)
	w.does("create", "--bundle", w.dir, "b")
	w.goOn()
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	rows := w.ps()
	if a, b := rows["a"], rows["b"]; a.State != "running" || b.State != "running" || a.PID == b.PID || a.Limit != 1000 || b.Limit != 1000 {
		t.Errorf("%+v\n%+v", a, b)
	}
	w.honest()
	w.does("exec", "b", "nproc") // runc reads the bundle again
	after, _ := os.ReadFile(w.config)
	if info, err := os.Stat(w.config); err != nil || info.Mode().Perm() != 0o640 || string(after) != string(before) {
		t.Errorf("the bundle has changed: %v %v\n%s", info.Mode(), err, after)
	}
	w.does("delete", "--force", "a")
	if got := w.bundles(); got != "b" {
		t.Errorf("bundles: %s", got)
	}
	w.writeConfig(50000)
	w.does("create", "--bundle", w.dir, "a")
	if got := w.ps()["a"].Limit; got != 500 {
		t.Errorf("limit %d: the edit is lost", got)
	}
	w.does("delete", "--force", "a")
	w.does("delete", "--force", "b")
	w.empty()
	if got := w.bundles(); got != "" {
		t.Errorf("bundles left: %s", got)
	}
}

// TestDockerRuntimeKilled: if candor-runc is killed after its plan, the next operation removes everything
// that it left, for every path of the container's group.
func TestDockerRuntimeKilled(t *testing.T) {
	for _, group := range []string{"", "-batch/a"} {
		t.Run(group, func(t *testing.T) { testRuntimeKilled(t, group) })
	}
}

func testRuntimeKilled(t *testing.T, group string) {
	w := newWrapped(t)
	if group != "" {
		w.writeConfig(100000, func(s ociSpec) { s.of("linux")["cgroupsPath"] = w.parent + group })
	}
	cmd := w.command("candor-runc", "create", "--bundle", w.dir, "a")
	w.stopAt("create", cmd)
	if got := w.ps()["a"].State; got != "pending" {
		t.Errorf("planned, it is %q", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	w.nudge()
	w.empty()
	w.does("create", "--bundle", w.dir, "b")
	w.does("delete", "--force", "b")
	if got := w.bundles(); got != "" {
		t.Errorf("bundles left: %s", got)
	}
	w.does("create", "--bundle", w.dir, "a")
	if got := w.ps()["a"].State; got != "running" {
		t.Errorf("made again, it is %q", got)
	}
	w.does("delete", "--force", "a")
	w.empty()
}

// TestDockerUpdateRace: while the real runtime writes the CPUs of a container, no other container gets CPUs.
func TestDockerUpdateRace(t *testing.T) {
	w := newWrapped(t)
	w.need(2)
	if got := do(t, w.command("candor-flexible-runc", "create", "--bundle", w.dir, "a")); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	update := w.command("candor-runc", "update", "--cpu-quota", "50000", "--cpu-period", "100000", "a")
	w.stopAt("update", update)
	other := w.launch(w.candor(append([]string{"run", "--cpu", "1", "--name", "other"}, play("sleep")...)...))
	w.waits()
	if rows := w.ps(); rows["other"].ID != "" {
		t.Errorf("has CPUs meanwhile: %+v", rows)
	}
	w.goOn()
	if err := update.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := other.line(t); got != "ready" {
		t.Errorf("the other: got %q", got)
	}
	if a := w.ps()["a"]; a.Limit != 500 {
		t.Errorf("%+v", a)
	}
	w.honest()
	w.does("delete", "--force", "a")
}

// waits waits until a process waits for the lock of the state.
func (l *lab) waits() {
	l.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(l.state, "lock"), &stat); err != nil {
		l.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", stat.Ino)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			l.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
		if time.Now().After(deadline) {
			l.Fatal("no process waits for the lock")
		}
	}
}
