package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sh makes a shell script the program of the container.
func sh(script string) func(ociSpec) {
	return func(s ociSpec) { s.of("process")["args"] = []string{"sh", "-c", script} }
}

// waitForLine waits until the output of candor-runc and its containers has a line.
func (w *wrapped) waitForLine(line string) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(w.dir, "out"))
		if err != nil {
			w.Fatal(err)
		}
		if strings.Contains("\n"+string(text), "\n"+line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("want the line %q:\n%s", line, text)
		}
	}
}

// pipeWith returns the read end of a pipe that contains a line.
func (w *wrapped) pipeWith(line string) *os.File {
	w.Helper()
	read, write, err := os.Pipe()
	if err == nil {
		_, err = write.WriteString(line + "\n")
	}
	if err == nil {
		err = write.Close()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { read.Close() })
	return read
}

// TestDockerExitCodesAndErrors: exit codes and messages are those of the real runtime and of the container.
func TestDockerExitCodesAndErrors(t *testing.T) {
	w := newWrapped(t)
	for _, words := range []string{"--version", "state nobody", "kill nobody TERM", "delete nobody", "exec nobody true", "nonsense", "features", "list"} {
		var ours, theirs bytes.Buffer
		exitCode := func(cmd *exec.Cmd, to *bytes.Buffer) int {
			cmd.Stdout, cmd.Stderr = to, to
			return do(t, cmd).code
		}
		args := append([]string{"--root", filepath.Join(w.dir, "root")}, strings.Fields(words)...)
		cmd := w.command("candor-runc", args...)
		cmd.Args = append([]string{"candor-runc"}, args...) // without a log: errors are for people
		code, want := exitCode(cmd, &ours), exitCode(exec.Command("runc", args...), &theirs)
		if code != want || withoutTime(ours.String()) != withoutTime(theirs.String()) {
			t.Errorf("%s: exit %d, %q; the real runtime: %d, %q", words, code, &ours, want, &theirs)
		}
	}
	w.writeConfig(100000, sh("exit 7"))
	if got := do(t, w.command("candor-runc", "run", "--bundle", w.dir, "a")).code; got != 7 {
		t.Errorf("run: exit %d, the program's is 7", got)
	}
	w.empty()
	w.writeConfig(100000, sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"))
	run := w.running("ready")
	if got := do(t, w.command("candor-runc", "exec", "a", "sh", "-c", "exit 9")).code; got != 9 {
		t.Errorf("exec: exit %d, the program's is 9", got)
	}
	run.Process.Signal(unix.SIGTERM)
	run.Wait()
	if got := run.ProcessState.ExitCode(); got != 5 {
		t.Errorf("signaled: exit %d, the program's is 5", got)
	}
	w.empty()
	w.writeConfig(100000, sh("echo waits; exec sleep 9999"))
	run = w.running("waits")
	w.does("kill", "a", "KILL")
	run.Wait()
	if got := run.ProcessState.ExitCode(); got != 128+9 {
		t.Errorf("killed: exit %d", got)
	}
	w.empty()
}

// running starts the container "a" and waits for a line of its program.
func (w *wrapped) running(line string) *exec.Cmd {
	w.Helper()
	run := w.command("candor-runc", "run", "--bundle", w.dir, "a")
	if err := run.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { run.Process.Kill(); run.Wait() })
	w.waitForLine(line)
	return run
}

// withoutTime removes the time and the source position from an error of runc.
func withoutTime(text string) string {
	words := strings.Fields(text)
	for i := range words {
		if strings.HasPrefix(words[i], "time=") {
			words[i] = ""
		}
	}
	return strings.Join(words, " ")
}

// TestDockerPreservedFiles: files that an engine passes reach the container: --preserve-fds, and the sockets
// of the process in LISTEN_PID.
func TestDockerPreservedFiles(t *testing.T) {
	w := newWrapped(t)
	w.writeConfig(100000, sh("read line <&3; echo $line $LISTEN_FDS $LISTEN_PID."))
	run := w.command("candor-runc", "run", "--preserve-fds", "1", "--bundle", w.dir, "a")
	run.ExtraFiles = []*os.File{w.pipeWith("run")}
	if got := do(t, run).code; got != 0 {
		t.Errorf("run: exit %d", got)
	}
	w.waitForLine("run .")
	create := w.command("candor-runc", "create", "--preserve-fds", "1", "--bundle", w.dir, "a")
	create.ExtraFiles = []*os.File{w.pipeWith("create")}
	if got := do(t, create).code; got != 0 {
		t.Fatalf("create: exit %d", got)
	}
	w.does("start", "a")
	w.waitForLine("create .")
	w.does("delete", "--force", "a")
	for _, command := range []string{"run", "create"} {
		cmd := w.command("candor-runc", command, "--bundle", w.dir, "a")
		cmd.Args = append([]string{"sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		cmd.ExtraFiles = []*os.File{w.pipeWith("socket for " + command)}
		if got := do(t, cmd).code; got != 0 {
			t.Fatalf("%s: exit %d", command, got)
		}
		if command == "create" {
			w.does("start", "a")
			defer w.does("delete", "--force", "a")
		}
		w.waitForLine("socket for " + command + " 1 1.")
	}
}

// TestDockerWeight: candor-runc does not apply a weight from the user, and logs that.
func TestDockerWeight(t *testing.T) {
	w := newWrapped(t)
	w.writeConfig(50000, func(s ociSpec) { s.of("linux").of("resources").of("cpu")["shares"] = 512 })
	w.does("create", "--bundle", w.dir, "a")
	w.does("update", "--cpu-share", "300", "a")
	log, err := os.ReadFile(filepath.Join(w.dir, "log"))
	for _, want := range []string{"a: cpu.shares 512: ignored", "a: cpu.shares 300: ignored"} {
		if strings.Count(string(log), want) != 1 {
			t.Errorf("want once %q: %s (%v)", want, log, err)
		}
	}
	if has, err := w.tree.Group("a").Settings(); err != nil || has.Weight != 500 {
		t.Errorf("%+v %v: want a weight of 500", has, err)
	}
	w.does("delete", "--force", "a")
	w.empty()
}

// TestDockerConsole: the real runtime creates the terminal and the file with the process id, as the engine requests.
func TestDockerConsole(t *testing.T) {
	w := newWrapped(t)
	w.writeConfig(100000, sh("test -t 0 && echo at a terminal; exec sleep 9999"), func(s ociSpec) { s.of("process")["terminal"] = true })
	socket, pidFile := filepath.Join(w.dir, "console"), filepath.Join(w.dir, "pid")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	w.does("create", "--console-socket", socket, "--pid-file", pidFile, "--bundle", w.dir, "a")
	listener.SetDeadline(time.Now().Add(time.Minute))
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	name, rights := make([]byte, 100), make([]byte, 100)
	_, n, _, _, err := conn.ReadMsgUnix(name, rights)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%v %v", messages, err)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	terminal := os.NewFile(uintptr(files[0]), "terminal")
	defer terminal.Close()
	w.does("start", "a")
	output := make([]byte, 100)
	if n, err := terminal.Read(output); err != nil || !strings.HasPrefix(string(output[:n]), "at a terminal") {
		t.Errorf("%q %v", output[:n], err)
	}
	if text, err := os.ReadFile(pidFile); err != nil || string(text) != strconv.Itoa(w.ps()["a"].PID) {
		t.Errorf("%q %v; candor ps has %d", text, err, w.ps()["a"].PID)
	}
	w.does("delete", "--force", "a")
	w.empty()
}
