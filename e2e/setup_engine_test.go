package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetupEngine: the command lines of candor setup docker, podman and containerd. Package
// cmd/candor/internal/setup/engine tests the changes themselves.
func TestSetupEngine(t *testing.T) {
	dir := t.TempDir()
	bin, file := filepath.Join(dir, "candor"), filepath.Join(dir, "daemon.json")
	program, err := os.ReadFile(os.Getenv("CANDOR_BIN"))
	if err == nil {
		err = os.WriteFile(bin, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	named := file
	setup := func(engine string, flags ...string) outcome {
		cmd := exec.Command(bin, append([]string{"setup", engine, "--file", named}, flags...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CANDOR_CONFIG="+filepath.Join(dir, "host.json"))
		return do(t, cmd)
	}
	refused := func(got outcome, want string) {
		t.Helper()
		if got.code != 2 || got.out != "" || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, want) {
			t.Errorf("%+v; want exit code 2 and one line with %q", got, want)
		}
	}
	refused(setup("docker"), "ln -s candor "+filepath.Join(dir, "candor-runc"))
	for _, name := range []string{"candor-runc", "candor-flexible-runc"} {
		if err := os.Symlink("candor", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	refused(setup("docker", "--undo", "--default"), "takes no --default")
	for engine, bad := range map[string]string{"docker": "{", "podman": "a = [", "containerd": "a"} {
		if err := os.WriteFile(file, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(setup(engine), file+": not ")
		if text, _ := os.ReadFile(file); string(text) != bad {
			t.Errorf("%s: %q was overwritten: %q", engine, bad, text)
		}
	}
	os.Remove(file)
	shown, done := setup("docker", "--dry-run", "--default"), setup("docker", "--default")
	if done.code != 0 || shown.out == "" || !strings.HasPrefix(done.out, shown.out+"Now: systemctl reload docker.\nUnless candor nri runs on this machine, a service keeps the memory in the views of containers current:\n") || !strings.Contains(done.out, "+  \"default-runtime\": \"candor\"\n") {
		t.Errorf("%+v\n%+v", shown, done)
	}
	record := filepath.Join(dir, "setup-docker.json")
	if err := os.Rename(record, record+".away"); err != nil {
		t.Fatal(err)
	}
	refused(setup("docker", "--undo"), record+", is missing")
	if err := os.Rename(record+".away", record); err != nil {
		t.Fatal(err)
	}
	named = filepath.Base(file) // the same one
	if got := setup("docker", "--undo"); got.code != 0 || !strings.Contains(got.out, "The file is removed.\n") {
		t.Errorf("%+v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
