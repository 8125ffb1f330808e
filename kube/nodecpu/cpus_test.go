package nodecpu

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

func TestFormatCPUs(t *testing.T) {
	for want, f := range map[string]struct {
		own       string
		fractions []hybrid.Fraction
	}{
		"":               {},
		"0-2":            {"0-2", nil},
		"0-2,7:500m":     {"0-2", []hybrid.Fraction{{CPU: 7, Milli: 500}}},
		"3:1m,1023:999m": {"", []hybrid.Fraction{{CPU: 3, Milli: 1}, {CPU: 1023, Milli: 999}}},
		"0,2,4-5,3:100m": {"0,2,4-5", []hybrid.Fraction{{CPU: 3, Milli: 100}}},
	} {
		own := cpuset.MustParse(f.own)
		if got := FormatCPUs(own, f.fractions); got != want {
			t.Errorf("%v %v: got %q, want %q", own, f.fractions, got, want)
		}
	}
}

// TestParseCPUs: the output of FormatCPUs parses to the same CPUs and fractions, and ParseCPUs refuses other
// texts.
func TestParseCPUs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var own cpuset.Set
		var fractions []hybrid.Fraction
		for cpu := range 40 {
			switch milli := rapid.IntRange(-2000, 999).Draw(rt, "milli"); {
			case milli > 0:
				fractions = append(fractions, hybrid.Fraction{CPU: cpu, Milli: hybrid.Milli(milli)})
			case milli > -1000:
				own.Add(cpu)
			}
		}
		text := FormatCPUs(own, fractions)
		got, parts, err := ParseCPUs(text)
		if err != nil || got != own || FormatCPUs(got, parts) != text {
			rt.Fatalf("%q: %v %v %v", text, got, parts, err)
		}
	})
	for _, bad := range []string{",", "0,", "0,0", "0,0:500m", "7:500m,7:1m", "7:", "7:0", "7:1", "7:1000m", "7-8:500m", ":500m", "x", "0 1", "7:500m:1", "1024"} {
		if own, fractions, err := ParseCPUs(bad); err == nil {
			t.Errorf("%q: got %v %v, want an error", bad, own, fractions)
		}
	}
}
