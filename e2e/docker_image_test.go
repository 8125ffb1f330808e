package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImage: the image of the chart contains only candor, and runs.
func TestImage(t *testing.T) {
	d := newDocker(t)
	context := filepath.Join(d.dir, "context")
	program, err := os.ReadFile(os.Getenv("CANDOR_BIN"))
	if err == nil {
		err = os.Mkdir(context, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(context, "candor"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.does("build", "--file", "../deploy/Dockerfile", "--tag", "candor:test", context)
	if got := d.does("run", "--rm", "--network", "none", "--read-only", "candor:test", "version"); !strings.HasPrefix(got, "candor ") {
		t.Errorf("got %q", got)
	}
}
