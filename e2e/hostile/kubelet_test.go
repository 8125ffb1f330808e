package hostile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func init() {
	roles["kubelet"] = func([]string) { fmt.Println("ready"); time.Sleep(time.Minute) }
}

// In a pid namespace with a /proc of its own, the attack starts before candor nri does.
const kubeletNode = `mkfifo "$DIR/ready"
(ATTACK) >"$DIR/ready" &
read -r line <"$DIR/ready"
[ "$line" = ready ] || exit 99
exec RIGHTS "$CANDOR_BIN" nri --socket "$DIR/none.sock" --config "$DIR/nri.yaml"`

const (
	allRights = ""
	podRights = "setpriv --bounding-set=-all,+kill" // those of the chart's pod: no CAP_SYS_PTRACE
)

// A process that only calls itself kubelet does not keep candor nri from starting.
func TestHostileKubeletByName(t *testing.T) {
	const static = " --cpu-manager-policy=static"
	for name, test := range map[string]struct{ attack, logged string }{
		"another user":               {attack: `setpriv --reuid 65534 --regid 65534 --clear-groups "$DIR/kubelet"` + static},
		"pid namespace, user 65534":  {attack: `unshare -pf --mount-proc setpriv --reuid 65534 --regid 65534 --clear-groups "$DIR/kubelet"` + static},
		"pid namespace, root":        {attack: `unshare -pf --mount-proc "$DIR/kubelet"` + static},
		"root of a user namespace":   {attack: `unshare -Ur "$DIR/kubelet"` + static},
		"pod that shares the pids":   {attack: `echo 0 >"$GROUP/cgroup.procs"; exec "$DIR/kubelet"` + static},
		"argv of a root's program":   {attack: `exec bash -c 'exec -a kubelet "$DIR/sleeper"` + static + `'`, logged: `is \"sleeper\"`},
		"name that hurts a terminal": {attack: `exec bash -c 'exec -a $(printf "\033[2J/kubelet") "$DIR/sleeper"` + static + `'`, logged: `is \"sleeper\"`},
	} {
		for _, rights := range []string{allRights, podRights} {
			t.Run(name+" "+rights, func(t *testing.T) {
				l := newLab(t)
				logged, _ := l.nriBeside(test.attack, rights)
				if !strings.Contains(logged, "waiting for the runtime") {
					t.Errorf("candor nri did not start:\n%s", logged)
				}
				if strings.Contains(logged, "CPU manager") != (test.logged != "") || !strings.Contains(logged, test.logged) || strings.Contains(logged, "\x1b") {
					t.Errorf("want a warning with %q:\n%s", test.logged, logged)
				}
			})
		}
	}
}

// The node's own kubelet does, with and without the right to read its files.
func TestHostileKubeletOfTheNode(t *testing.T) {
	for _, rights := range []string{allRights, podRights} {
		logged, code := newLab(t).nriBeside(`exec "$DIR/kubelet" --cpu-manager-policy=static`, rights)
		if code != 2 || !strings.Contains(logged, "--cpu-manager-policy of process") {
			t.Errorf("%q: exit %d; want 2:\n%s", rights, code, logged)
		}
	}
}

// nriBeside runs candor nri beside an attack until it waits for the runtime or ends. It returns the log and the exit code.
func (l *lab) nriBeside(attack, rights string) (logged string, code int) {
	l.Helper()
	l.copySelf("kubelet")
	l.copySelf("sleeper")
	if err := os.WriteFile(filepath.Join(l.dir, "nri.yaml"), []byte("version: 1\n"), 0o644); err != nil {
		l.Fatal(err)
	}
	cmd := l.candor()
	script := strings.NewReplacer("ATTACK", attack, "RIGHTS", rights).Replace(kubeletNode)
	cmd.Path, cmd.Args = lookPath(l.T, "unshare"), []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script}
	cmd.Env = append(cmd.Env, "DIR="+l.dir, "GROUP="+l.podGroup(), roleVariable+"=kubelet")
	read, write, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	defer read.Close()
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	write.Close()
	read.SetReadDeadline(time.Now().Add(20 * time.Second))
	var text bytes.Buffer
	for piece := make([]byte, 4096); !strings.Contains(text.String(), "waiting for the runtime"); {
		n, err := read.Read(piece)
		text.Write(piece[:n])
		if err == io.EOF {
			cmd.Wait()
			return text.String(), cmd.ProcessState.ExitCode()
		}
		if err != nil {
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	return text.String(), cmd.ProcessState.ExitCode()
}

// podGroup makes a group as the kubelet names a pod's, and returns its directory.
func (l *lab) podGroup() string {
	l.Helper()
	top := "/sys/fs/cgroup"
	if _, err := os.Stat(top + "/cgroup.controllers"); err != nil {
		top += "/freezer" // a v1 hierarchy whose groups need no settings
	}
	above := filepath.Join(top, l.parent+"-pods")
	dir := filepath.Join(above, "pod0a1b2c3d-0a1b-4c2d-9e3f-0a1b2c3d4e5f")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		for deadline := time.Now().Add(20 * time.Second); os.Remove(dir) != nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if err := os.Remove(above); err != nil {
			l.Error(err)
		}
	})
	return dir
}

// copySelf copies this binary to a program of another name.
func (l *lab) copySelf(name string) {
	l.Helper()
	self, err := os.Executable()
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(self); err == nil {
			err = os.WriteFile(filepath.Join(l.dir, name), data, 0o755)
		}
	}
	if err != nil {
		l.Fatal(err)
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	return path
}
