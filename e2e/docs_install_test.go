package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/docblock"
)

const installPage = "../docs/install.md"

// installBlocks returns the blocks of commands below a heading of docs/install.md.
func installBlocks(t *testing.T, heading string) []docblock.Block {
	t.Helper()
	blocks, err := docblock.Blocks(installPage, heading)
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("no documents in the guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// runBlock runs the commands of a block. All commands must succeed, but the doctor can find defects of this machine. The last command
// prints the output of the block, if the block shows an output.
func runBlock(t *testing.T, block docblock.Block, run func(command string) outcome) {
	t.Helper()
	for i, command := range block.Commands {
		got := run(command)
		isDoctor := strings.HasPrefix(command, "candor doctor ") && got.code == 1 && strings.Contains(got.out, " failed")
		isWrong := i == len(block.Commands)-1 && block.Output != "" && got.out != block.Output
		if got.code != 0 && !isDoctor || isWrong {
			t.Fatalf("%s: %+v, want the output %q", command, got, block.Output)
		}
	}
}

// shellIn returns a function for runBlock: it runs commands in a directory, with the programs of a second directory first in the PATH.
func (l *lab) shellIn(dir, programs string) func(command string) outcome {
	return func(command string) outcome {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = l.candor().Env
		cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"))
		return do(l.T, cmd)
	}
}

// TestInstallDocs runs the commands of docs/install.md for the static binary and for Docker. TestReleaseInstallDocs runs those for
// packages, and TestReleaseInstallDocs of e2e/containerd those for Kubernetes.
func TestInstallDocs(t *testing.T) {
	d := newDocker(t)
	d.need(2)

	block := installBlocks(t, "### Static binary")[0]
	binaries := d.in("local")
	if err := os.Mkdir(binaries, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := do(t, exec.Command("cp", os.Getenv("CANDOR_BIN"), d.in("candor-linux-amd64"))); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for i := range block.Commands {
		block.Commands[i] = strings.ReplaceAll(block.Commands[i], "/usr/local/bin", binaries)
	}
	runBlock(t, block, d.shellIn(d.dir, binaries))

	block = installBlocks(t, "### Docker and Podman")[0]
	d.does("tag", "box", "debian")
	client, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	programs := d.in("programs")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{ // the same commands for the engine of this test
		"docker":    fmt.Sprintf(`exec %s --host unix://%s "$@"`, client, d.in("sock")),
		"systemctl": fmt.Sprintf(`[ "$*" = "reload docker" ] && kill -HUP %d`, d.daemon.Process.Pid),
		"candor":    fmt.Sprintf(`case "$1 $2" in "setup docker") set -- "$@" --file %s ;; esac; exec %s/candor "$@"`, d.in("daemon.json"), d.bin),
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	runBlock(t, block, d.shellIn(d.dir, programs))
}

// unitScript is a systemctl for a scratchRoot. The state of candor-nri.service is in the file /run/unit.
const unitScript = `#!/bin/sh
echo "$@" >>/run/systemctl
case $1 in
show) cat /run/unit ;;
enable) sed -i s/=disabled/=enabled/ /run/unit ;;
start) sed -i s/=inactive/=active/ /run/unit ;;
disable) sed -i 's/=active/=inactive/; s/=enabled/=disabled/' /run/unit ;;
esac
`

// TestInstallDocsContainerd runs the commands of docs/install.md for containerd, in a root directory with containerd 1.7, Docker and
// Podman. The undo restores all files. The programs of the engines do not run.
func TestInstallDocsContainerd(t *testing.T) {
	block := installBlocks(t, "### containerd and CRI-O")[0]
	if found, unclear := nri.FindRuntimes("/"); len(found) > 0 || unclear != nil {
		t.Skipf("a container runtime runs on this machine, and the setup would read its configuration: %v", unclear)
	}
	files := t.TempDir()
	copyFile(t, os.Getenv("CANDOR_BIN"), files, "candor")
	for name, text := range map[string]string{"systemctl": unitScript, "dockerd": "#!/bin/sh\n", "podman": "#!/bin/sh\n", "containerd": "#!/bin/sh\necho containerd x v1.7.24\n"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := newScratchRoot(t, files)
	r.does("install -m 755 candor systemctl dockerd podman containerd /usr/local/bin",
		"ln -s candor /usr/local/bin/candor-runc && ln -s candor /usr/local/bin/candor-flexible-runc",
		"rm -rf /etc/docker /etc/containers /etc/containerd && mkdir -p /run/systemd/system /etc/containerd /etc/docker /etc/candor",
		`echo '{"debug": true}' >/etc/docker/daemon.json`,
		`printf 'LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n' >/run/unit`)
	const etc = "cd /etc && find docker containers containerd candor -type f 2>/dev/null | sort | xargs -r sha256sum"
	for name, write := range map[string]string{
		"version 2":  "echo 'version = 2' >/etc/containerd/config.toml",
		"no version": "echo 'oom_score = 0' >/etc/containerd/config.toml",
		"no file":    "rm -f /etc/containerd/config.toml",
	} {
		r.does(write)
		before := r.does(etc)
		runBlock(t, block, func(command string) outcome { return do(t, r.command(command)) })
		for file, want := range map[string]string{
			"/etc/docker/daemon.json": "candor-flexible-runc", "/etc/containers/containers.conf.d/candor.conf": "candor-runc",
			"/etc/containerd/config.toml": "disable = false", "/run/unit": "=active\nUnitFileState=enabled",
		} {
			if text := r.does("cat " + file); !strings.Contains(text, want) {
				t.Errorf("%s: %s is\n%s\nwant %s", name, file, text, want)
			}
		}
		rows := r.does("candor setup")
		for _, setup := range []string{"docker", "podman", "nri", "service"} {
			if !regexp.MustCompile(`(?m)^` + setup + ` +done `).MatchString(rows) {
				t.Errorf("%s: %s is not done:\n%s", name, setup, rows)
			}
		}
		r.does("candor setup node --undo")
		if after := r.does(etc); after != before {
			t.Errorf("%s: after the undo, the files are\n%s\nwant\n%s", name, after, before)
		}
	}
	r.does("echo 'a = [' >/etc/containerd/config.toml")
	before := r.does(etc)
	if got := do(t, r.command("candor setup node")); got.code != 2 || got.out != "" || strings.Count(got.err, "\n") != 1 {
		t.Errorf("an invalid file of containerd: %+v, want exit code 2 and a single line", got)
	}
	if after := r.does(etc); after != before {
		t.Errorf("an invalid file of containerd: the files are\n%s\nwant\n%s", after, before)
	}
}
