package trace

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSplit: split returns the texts between the commas, for any positions of the commas.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.SliceOfN(rapid.SampledFrom([]byte{',', ',', '+', '-', 0, 'l', 0xac, 0xff, 'a'}), 1, 40).Draw(rt, "line")
		var row table
		if err := row.split(line); err != nil {
			rt.Fatal(err)
		}
		if want := bytes.Split(line, []byte{','}); !slices.EqualFunc(row.fields, want, bytes.Equal) {
			rt.Fatalf("%q: %q, want %q", line, row.fields, want)
		}
	})
}
