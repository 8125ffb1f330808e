package host

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

const secret = "hunter2"

// holding returns the modes of the files below the state directory that contain the secret.
func (l *lab) holding() map[string]fs.FileMode {
	l.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(l.store.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(secret)) {
			info, _ := entry.Info()
			name, _ := filepath.Rel(l.store.Dir, path)
			found[name] = info.Mode()
		}
		return err
	})
	if err != nil {
		l.Fatal(err)
	}
	return found
}

// TestNoArgumentsStored: the state contains no program arguments. Only its owner can read a command of
// OnResize. Earlier versions of Candor can still run this command.
func TestNoArgumentsStored(t *testing.T) {
	l := newLab(t)
	a := ask("web", "0.5")
	a.Command, a.OnResize = "/bin/server --password "+secret, "exec:echo '"+secret+"' $CANDOR_NAME"
	web := l.must(a, "wait")
	l.nudge()
	if got := l.holding(); len(got) != 1 || got["commands/web"] != 0o600 {
		t.Errorf("the secret is in %v; want it in commands/web alone, mode 0600", got)
	}
	if info, err := os.Stat(filepath.Join(l.store.Dir, "commands")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("commands: %v %v; want mode 0700", info.Mode(), err)
	}
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Grant("web")
	if err != nil || g.Command != "server" || l.OnResize(g) != a.OnResize {
		t.Fatalf("%v: command %q, on resize %q", err, g.Command, l.OnResize(g))
	}
	var out bytes.Buffer
	if done, err := l.Notify(ctx, g, &out, io.Discard); err != nil || out.String() != secret+" web\n" || done != `notified by "echo '`+secret+`' $CANDOR_NAME"` {
		t.Errorf("notified: %q %v, %q", done, err, out.String())
	}
	_, earlier, err := spec.ParseOnResize(g.OnResize) // as in a version without the file
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", earlier)
	cmd.Env = []string{"CANDOR_NAME=web"}
	if got, err := cmd.CombinedOutput(); err != nil || string(got) != secret+" web\n" {
		t.Errorf("%s: %v %q", earlier, err, got)
	}
	web.stop()
	if err := l.Release(ctx, "web", false); err != nil {
		t.Error(err)
	}
	if got := l.holding(); len(got) != 0 {
		t.Errorf("after the end the secret is in %v", got)
	}
}

// withArguments writes a state and its requests with program arguments, as an earlier version did.
func (l *lab) withArguments() {
	l.Helper()
	for _, file := range []string{l.store.File(), l.store.RequestFile("web")} {
		text, err := os.ReadFile(file)
		if err != nil {
			l.Fatal(err)
		}
		old := strings.NewReplacer(`"command":"test"`, `"command":"test --password `+secret+`"`, `"onResize":"none"`, `"onResize":"exec:echo `+secret+`"`).Replace(string(text))
		if strings.Count(old, secret) != 2 {
			l.Fatalf("%s: %s", file, old)
		}
		if err := fileio.Replace(file, []byte(old)); err != nil {
			l.Fatal(err)
		}
	}
	if err := fileio.Replace(l.store.BadFile(), []byte(secret)); err != nil {
		l.Fatal(err)
	}
}

// TestArgumentsOfEarlierVersion: the first operation drops the arguments that an earlier version has stored,
// even if only the requests remain and the state is lost.
func TestArgumentsOfEarlierVersion(t *testing.T) {
	for _, lost := range []bool{false, true} {
		l := newLab(t)
		l.must(ask("web", "0.5"), "wait")
		l.withArguments()
		if lost {
			if err := os.Remove(l.store.File()); err != nil {
				t.Fatal(err)
			}
			os.Remove(l.store.BadFile())
		}
		l.nudge()
		got := l.holding()
		if mode, is := got["commands/web"]; !is || mode != 0o600 {
			t.Errorf("state lost: %t: the command is not kept: %v", lost, got)
		}
		for name, mode := range got {
			if mode&0o077 != 0 {
				t.Errorf("state lost: %t: the secret is in %s, mode %v", lost, name, mode)
			}
		}
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if g, err := s.Grant("web"); err != nil || g.Command != "test" || l.OnResize(g) != "exec:echo "+secret {
			t.Errorf("state lost: %t: %+v %v", lost, g, err)
		}
	}
}

// An unusable state is readable by its owner only.
func TestUnusableStateIsPrivate(t *testing.T) {
	l := newLab(t)
	l.nudge()
	if err := fileio.Replace(l.store.File(), []byte(`{"version":2,"command":"x `+secret+`"`)); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	if got := l.holding(); len(got) != 1 || got["state.json.bad"] != 0o600 {
		t.Errorf("the secret is in %v; want it in state.json.bad, mode 0600", got)
	}
}

// CommandLine returns the kernel's command line of a running program, and the program's name after it has ended.
func TestCommandLine(t *testing.T) {
	l := newLab(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"sh", "-c", "echo; read x", "a\x1b[31m", "b\n"}, "sh -c echo; read x a [31m b"},
		{[]string{"sh", "-c", "echo; read x", strings.Repeat("é", 5000)}, "sh -c echo; read x " + strings.Repeat("é", 180) + "…"},
	} {
		cmd := exec.Command("sh")
		cmd.Args = test.args
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 1)) // now the process runs the program
		main, err := state.ProcessOf(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		g := &Grant{Main: main, Spec: spec.Spec{Command: "name"}}
		if got := l.CommandLine(g); got != test.want {
			t.Errorf("%q: %q, want %q", test.args, got, test.want)
		}
		g.Main.Start++ // another process had this ID
		if got := l.CommandLine(g); got != "name" {
			t.Errorf("of another process: %q", got)
		}
		in.Close()
		cmd.Wait()
		if got := l.CommandLine(&Grant{Main: main, Spec: spec.Spec{Command: "name"}}); got != "name" {
			t.Errorf("after the end: %q", got)
		}
	}
}
