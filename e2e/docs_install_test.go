package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installBlock returns the commands of the first block below a heading of docs/install.md, and their output.
func installBlock(t *testing.T, heading string) (commands []string, output string) {
	t.Helper()
	page, err := os.ReadFile("../docs/install.md")
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("no documents in the guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+heading+"\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, isBlock := strings.Cut(block, "```\n")
	if !isBlock {
		t.Fatalf("docs/install.md has no block below %q", heading)
	}
	for line := range strings.Lines(block) {
		if command, isCommand := strings.CutPrefix(line, "# "); isCommand {
			commands = append(commands, strings.TrimSuffix(command, "\n"))
		} else {
			output += line
		}
	}
	return commands, output
}

// runBlock runs such commands in a directory, with the programs of a second directory first in the PATH. All commands must succeed,
// but the doctor can find defects of this machine. The last command prints the output of the block.
func (l *lab) runBlock(dir, programs string, commands []string, output string) {
	l.Helper()
	for i, command := range commands {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = l.candor().Env
		cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"))
		got := do(l.T, cmd)
		isDoctor := strings.HasPrefix(command, "candor doctor ") && got.code == 1 && strings.Contains(got.out, " failed")
		if got.code != 0 && !isDoctor || i == len(commands)-1 && got.out != output {
			l.Fatalf("%s: %+v, want the output %q", command, got, output)
		}
	}
}

// TestInstallDocs runs the commands of docs/install.md for the static binary and for Docker. The commands for packages need their
// distribution; TestReleaseFiles of deploy installs the deb.
func TestInstallDocs(t *testing.T) {
	d := newDocker(t)
	d.need(2)

	commands, output := installBlock(t, "Static binary")
	binaries := d.in("local")
	if err := os.Mkdir(binaries, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := do(t, exec.Command("cp", os.Getenv("CANDOR_BIN"), d.in("candor-linux-amd64"))); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for i := range commands {
		commands[i] = strings.ReplaceAll(commands[i], "/usr/local/bin", binaries)
	}
	d.runBlock(d.dir, binaries, commands, output)

	commands, output = installBlock(t, "Docker and Podman")
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
	d.runBlock(d.dir, programs, commands, output)
}
