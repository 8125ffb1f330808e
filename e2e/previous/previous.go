// Package previous gives tests the release before this one, from the history of git.
package previous

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Release is the commit of the release before this one. Until there is a tag, it is the last commit before the first release.
const Release = "414655b"

// Sources writes the files below a path of the release to a new directory, and returns the directory. root is the root of the
// repository. Without the history of git, Sources skips the test.
func Sources(t *testing.T, root, path string) (dir string) {
	t.Helper()
	git := func(args ...string) *exec.Cmd {
		return exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", root}, args...)...)
	}
	if err := git("cat-file", "-e", Release+"^{commit}").Run(); err != nil {
		t.Skipf("the history of git lacks the previous release %s: %v; get it with git fetch --unshallow", Release, err)
	}
	archive, err := git("archive", Release, path).Output()
	if err != nil {
		t.Fatalf("git archive %s %s: %v", Release, path, err)
	}
	dir = t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// Build builds candor of the release, and returns the path of the program. It skips the test as Sources does.
func Build(t *testing.T, root string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "candor")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/candor")
	build.Dir = Sources(t, root, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v\n%s", Release, err, out)
	}
	return program
}
