package hostile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	kubelet := func([]string) { fmt.Println("ready"); time.Sleep(time.Minute) }
	roles["kubelet"] = kubelet
	roles["kubelet of a set-user-ID program"] = func(args []string) {
		if err := syscall.Setresuid(0, 0, 0); err != nil { // as su does before it reads a password
			fmt.Println(err)
			return
		}
		kubelet(args)
	}
}

// In a pid namespace with a /proc of its own, the attack starts before candor nri does.
const kubeletNode = `mkfifo "$DIR/ready"
(ATTACK) >"$DIR/ready" &
read -r line <"$DIR/ready"
[ "$line" = ready ] || exit 99
exec RIGHTS "$CANDOR_BIN" nri --socket "$DIR/none.sock" --config "$DIR/nri.yaml"`

const (
	allRights = ""
	podRights = "setpriv --bounding-set=-all,+kill,+sys_ptrace" // the capabilities of the chart's pod
	fewRights = "setpriv --bounding-set=-all,+kill"             // without those to read the program of a process
)

// TestHostileKubeletByName: a process with the name kubelet does not prevent the start of candor nri.
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

// A local user chooses comm and argv of a set-user-ID program, and the program sets all its user ids to 0. Its file is not a
// kubelet's, and a file that cannot be read refuses nothing.
func TestHostileKubeletSetUserID(t *testing.T) {
	for rights, logged := range map[string]string{allRights: `is \"helper\"`, podRights: `is \"helper\"`, fewRights: "cannot read the program file"} {
		for _, end := range []string{"", " -- /bin/ls"} {
			t.Run(rights+end, func(t *testing.T) {
				l := newLab(t)
				l.setUserID("helper")
				log, _ := l.nriBeside(`cd "$DIR/users"; export `+roleVariable+`="kubelet of a set-user-ID program"
exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -c 'ln -s ../helper kubelet; exec -a kubelet ./kubelet`+end+` --cpu-manager-policy=static'`, rights)
				if !strings.Contains(log, "waiting for the runtime") || !strings.Contains(log, logged) {
					t.Errorf("candor nri did not start, or without a warning with %q:\n%s", logged, log)
				}
			})
		}
	}
}

// setUserID copies this binary to a program that runs as root for group 65534, beside a directory of user 65534.
func (l *lab) setUserID(name string) {
	l.Helper()
	var fs unix.Statfs_t
	err := unix.Statfs(l.dir, &fs)
	if err == nil && fs.Flags&unix.ST_NOSUID != 0 {
		l.Skip("the file system has the option nosuid")
	}
	l.copySelf(name)
	program, users := filepath.Join(l.dir, name), filepath.Join(l.dir, "users")
	for _, err := range []error{
		err,
		os.Chown(program, 0, 65534),
		os.Chmod(program, 0o750|os.ModeSetuid),
		os.Mkdir(users, 0o755),
		os.Chown(users, 65534, 65534),
		os.Chmod(filepath.Dir(l.dir), 0o711),
	} {
		if err != nil {
			l.Fatal(err)
		}
	}
}

// TestHostileKubeletOfTheNode: the node's own kubelet prevents the start of candor nri, which has the right to read the
// kubelet's program.
func TestHostileKubeletOfTheNode(t *testing.T) {
	const attack = `exec "$DIR/kubelet" --cpu-manager-policy=static`
	for _, rights := range []string{allRights, podRights} {
		logged, code := newLab(t).nriBeside(attack, rights)
		if code != 2 || !strings.Contains(logged, "--cpu-manager-policy of process") {
			t.Errorf("%q: exit %d; want 2:\n%s", rights, code, logged)
		}
	}
	logged, _ := newLab(t).nriBeside(attack, fewRights)
	if !strings.Contains(logged, "waiting for the runtime") || !strings.Contains(logged, "give candor nri CAP_SYS_PTRACE") {
		t.Errorf("want a warning and a start:\n%s", logged)
	}
}

// At boot the kubelet starts after candor nri: its state file refuses the start if only root can have written it.
func TestHostileKubeletStateFile(t *testing.T) {
	for owner, refused := range map[string]bool{"0": true, "65534": false} {
		logged, code := newLab(t).nriBeside(`mount -t tmpfs candor /var/lib && mkdir /var/lib/kubelet && cd /var/lib/kubelet || exit 1
echo '{"policyName":"static","defaultCpuSet":"0","checksum":1}' >cpu_manager_state && chown `+owner+` cpu_manager_state && echo ready`, podRights)
		if (code == 2) != refused || strings.Contains(logged, "waiting for the runtime") == refused || !strings.Contains(logged, "/var/lib/kubelet/cpu_manager_state") {
			t.Errorf("owner %s: exit %d; want refused: %v\n%s", owner, code, refused, logged)
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
