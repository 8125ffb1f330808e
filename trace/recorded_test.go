package trace

import (
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// TestRecordedCompact reads a compact file that an earlier release wrote.
func TestRecordedCompact(t *testing.T) {
	r, err := Open("testdata/recorded.ctrace", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := r.Header()
	if h.Name != "synthetic" || h.Source != "synthetic:machines=5,days=0.02" || h.Unit != LargestMachine || len(h.Classes) != 4 || !h.Classes[2].Sensitive ||
		h.Machines != 5 || h.Containers != 89 || h.Slots != 58 || h.Events != 125 || h.Span != 1717985625 {
		t.Errorf("header %+v", h)
	}
	golden.CheckLines(t, "testdata/recorded.txt", text(r))
}
