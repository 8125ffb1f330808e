package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Texts that a test plants in containers. Only plantedName can be in an archive of candor support, and only without --anonymize.
const (
	plantedName     = "plantedname"
	plantedArgument = "plantedargument"
	plantedVariable = "PLANTEDVARIABLE"
	plantedValue    = "plantedvalue"
)

// TestSupportSecrets: an archive of candor support has neither the arguments nor the environment of a program of candor run.
func TestSupportSecrets(t *testing.T) {
	l := newLab(t)
	cmd := l.candor("run", "--name", plantedName, "--cpu", "1", "--on-resize", "exec:true "+plantedArgument, "--",
		"sh", "-c", "echo ready; sleep 9999; true "+plantedArgument)
	cmd.Env = append(cmd.Env, plantedVariable+"="+plantedValue)
	if got := l.launch(cmd).line(t); got != "ready" {
		t.Fatalf("candor run: %q", got)
	}
	checkPlanted(t, l.ps()[plantedName].PID)
	l.checkSupport()
}

// TestDockerSupportSecrets: an archive of candor support has neither the arguments nor the environment nor the labels of a Docker
// container.
func TestDockerSupportSecrets(t *testing.T) {
	d := newDocker(t)
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--cpus=0.5", "--name="+plantedName, "--hostname="+plantedValue,
		"-e", plantedVariable+"="+plantedValue, "--label", plantedVariable+"="+plantedValue, "box", "sh", "-c", "sleep 9999; : "+plantedArgument)[:12]
	checkPlanted(t, d.inspect(id).PID)
	d.checkSupport()
}

// checkPlanted checks that a process has the planted argument and the planted variable.
func checkPlanted(t *testing.T, pid int) {
	t.Helper()
	for file, want := range map[string]string{"cmdline": plantedArgument, "environ": plantedVariable + "=" + plantedValue} {
		text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Fatalf("the test proves nothing: %s of process %d is %q (%v), want %q", file, pid, text, err, want)
		}
	}
}

// checkSupport checks the archives with and without names.
func (l *lab) checkSupport() {
	l.Helper()
	for _, flags := range [][]string{nil, {"--anonymize"}} {
		dir := l.TempDir()
		archive := filepath.Join(dir, "a.tar.gz")
		l.ok(append([]string{"support", "--file", archive}, flags...)...)
		if got := do(l.T, exec.Command("tar", "xzf", archive, "-C", dir)); got.code != 0 {
			l.Fatalf("%+v", got)
		}
		secrets := []string{plantedArgument, plantedVariable, plantedValue}
		if flags != nil {
			secrets = append(secrets, plantedName)
		}
		all := ""
		files, err := filepath.Glob(filepath.Join(dir, "candor-support", "*"))
		if err != nil || len(files) == 0 {
			l.Fatalf("files %q: %v", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				l.Fatal(err)
			}
			all += string(text)
			for _, secret := range secrets {
				if strings.Contains(strings.ToLower(string(text)), strings.ToLower(secret)) {
					l.Errorf("support %q: %s has %s:\n%s", flags, filepath.Base(file), secret, text)
				}
			}
		}
		if flags == nil && !strings.Contains(all, plantedName) {
			l.Errorf("the archive does not have the container: the test proves nothing")
		}
	}
}
