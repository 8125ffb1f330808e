// Package golden compares what a test gets with the file that says what it is to be. go test -update writes
// such files anew, for people to look at the difference.
package golden

import (
	"flag"
	"os"
	"testing"
)

// Update is the flag -update.
var Update = flag.Bool("update", false, "write the files anew that tests compare with")

// Check fails a test whose text is not that of a file.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew); got:\n%s", file, got)
	}
}
