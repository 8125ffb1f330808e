package trace

import (
	"math"
	"testing"
)

// TestAmounts parses quantities of CPU and memory in the notation of Kubernetes.
func TestAmounts(t *testing.T) {
	const no = -1
	for text, want := range map[string]int32{
		"": 0, "0": 0, "1": 1000, "1.5": 1500, "1500m": 1500, "0.1": 100, ".5": 500, "2e1": 20_000, "1m": 1, "0.4m": 0, "0.5m": 1,
		"1500u": 2, "250000000n": 250, "2147483": 2_147_483_000, "2147484": no,
		"-1": no, "+1": no, "NaN": no, "inf": no, "1k": no, "1\x20": no, "m": no, "1e": no, "1e999": no, "0x10": no, "1_000": no,
	} {
		if got, ok := parseCPU([]byte(text)); ok != (want != no) || ok && got != want {
			t.Errorf("CPU %q: %d, %v; want %d", text, got, ok, want)
		}
	}
	for text, want := range map[string]int32{
		"": 0, "1Mi": 1, "1.5Mi": 2, "4Gi": 4096, "1Ti": 1 << 20, "1048577": 2, "1M": 1, "2G": 1908, "1Ki": 1, "128974848000m": 123, "1e9": 954,
		"1Pi": 1 << 30, "1Ei": no, "1E": no, "-1Mi": no, "MiB": no, "1MiB": no, "Mi": no,
	} {
		if got, ok := parseMemory([]byte(text), math.Ceil); ok != (want != no) || ok && got != want {
			t.Errorf("memory %q: %d, %v; want %d", text, got, ok, want)
		}
	}
	if got, _ := parseMemory([]byte("2G"), math.Floor); got != 1907 {
		t.Errorf("a machine's 2G: %d MiB", got)
	}
}

// TestUnits: Milli converts fractions of the largest machine to milli-CPU, rounded to the nearest.
func TestUnits(t *testing.T) {
	for _, test := range []struct {
		unit  Unit
		cpu   int32
		cores float64
		want  int64
	}{
		{LargestMachine, One, 16, 16_000}, {LargestMachine, 62_500_000, 16, 1000}, {LargestMachine, 6_248_000, 16, 100},
		{LargestMachine, 24_990_000, 12, 300}, {LargestMachine, 0, 16, 0}, {Milli, 1500, 16, 1500},
	} {
		if got := test.unit.Milli(test.cpu, test.cores); got != test.want {
			t.Errorf("%d %v at %v cores: %dm, want %dm", test.cpu, test.unit, test.cores, got, test.want)
		}
	}
	for _, u := range []Unit{LargestMachine, Milli} {
		text, err := u.MarshalText()
		var back Unit
		if err := back.UnmarshalText(text); err != nil || back != u {
			t.Errorf("%s: %v, %v", text, back, err)
		}
		if err != nil || new(Unit).UnmarshalText([]byte("cores")) == nil {
			t.Error("cores is a unit")
		}
	}
}

// TestJobNumber: a numeric name gives its number, another name its FNV-1a hash.
func TestJobNumber(t *testing.T) {
	for name, want := range map[string]uint64{
		"0": 0, "7": 7, "6221861800": 6_221_861_800, "9999999999999999999": 9_999_999_999_999_999_999,
		"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, // test values of Fowler, Noll and Vo
	} {
		if got := JobNumber([]byte(name)); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
	for _, pair := range [][2]string{{"7", "07"}, {"0", "00"}, {"web", "Web"}, {"1", "1.0"}, {"10000000000000000000", "10000000000000000001"}} {
		if JobNumber([]byte(pair[0])) == JobNumber([]byte(pair[1])) {
			t.Errorf("%q and %q have one number", pair[0], pair[1])
		}
	}
}
