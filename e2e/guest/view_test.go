package guest_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
	"github.com/candor-project/candor/e2e/probes"
)

var update = flag.Bool("update", false, "write what TestViewMatrix measures into docs/view.md")

// TestViewMatrix runs TestViewMatrix of e2e in a guest with more CPUs and with this machine's runtimes. The
// matrix in docs/view.md has its results.
func TestViewMatrix(t *testing.T) {
	needGuest(t)
	t.Parallel()
	built := build(t, "e2e")
	dir := t.TempDir()
	bundle, err := probes.Collect(filepath.Join(root, "e2e/probes/testdata"), dir, "/guest/probes")
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range bundle.Skipped {
		t.Log("left out: ", left)
	}
	all := kernels(t)
	const doc = "/guest/docs/view.md"
	g := guest.Guest{Kernel: all[len(all)-1], Machine: guest.Big, Cgroup: 2, Init: filepath.Join(built.dir, "init"), Limit: 10 * time.Minute}
	g.Machine.NodeMB = 512 // the runtimes are large
	g.Files = built.files(t)
	maps.Copy(g.Files, bundle.Files)
	g.Files[doc] = filepath.Join(root, "docs/view.md")
	// nginx looks up the user of its workers.
	g.Texts = map[string]string{"/etc/passwd": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", "/etc/group": "root:x:0:\nnogroup:x:65534:\nnobody:x:65533:\n"}
	args := []string{"/bin/busybox", "env", "HOME=/", "PATH=" + strings.Join(append(bundle.Path, "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":"),
		"/guest/e2e/e2e.test", "-test.v=test2json", "-test.run=TestViewMatrix"}
	if *update {
		args = append(args, "-update")
	}
	g.Commands = []report.Command{
		{Name: "matrix", Args: args, Dir: "/guest/e2e", Limit: 8 * time.Minute, Env: []string{
			"CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor", "CANDOR_PROBES=/guest/probes", "CANDOR_MATRIX_LIMIT=1500m"}},
		{Name: "doc", Args: []string{"/bin/busybox", "cat", doc}},
	}
	results := run(t, &g)
	relay(t, results[0])
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs/view.md"), results[1].Output, 0o644); err != nil {
			t.Error(err)
		}
	}
}
