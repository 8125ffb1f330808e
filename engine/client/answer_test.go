package client

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLongOutput: an engine writes 20 MB. The client returns only the first maxAnswer bytes, and the engine
// can write the rest and report its error.
func TestLongOutput(t *testing.T) {
	var e Engine
	text, err := e.output(exec.Command("sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; echo refused >&2; exit 1"))
	if len(text) != maxAnswer || strings.Trim(text, "x") != "" || err == nil || err.Error() != "refused" {
		t.Errorf("got %d bytes, %v; want %d bytes and the engine's error", len(text), err, maxAnswer)
	}
}
