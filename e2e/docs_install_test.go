package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
