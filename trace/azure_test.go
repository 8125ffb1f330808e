package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// TestAzureHeading: a compressed copy with a header line gives the same events as the published file.
func TestAzureHeading(t *testing.T) {
	rows, err := os.ReadFile("testdata/azure/vmtable.csv")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vmtable.csv.gz")
	zipped := compress(t, append([]byte(strings.Join(azureColumns, ",")+"\n"), rows...))
	if err := os.WriteFile(path, zipped, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Open("azure:"+path+",memory=28,cores=8,machines=2", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	golden.Check(t, "testdata/azure.txt", text(r))
}
