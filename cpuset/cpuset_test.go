package cpuset

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for list, want := range map[string][]int{
		"":              nil,
		"\n":            nil,
		"0":             {0},
		"0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11},
		"8,0-1":         {0, 1, 8},
		"1023":          {1023},
		"0001":          {1},
		"5-5":           {5},
		"62-65":         {62, 63, 64, 65},
		"1,1-2,2":       {1, 2},
	} {
		s, err := Parse(list)
		if err != nil {
			t.Errorf("Parse(%q): %v", list, err)
		} else if got := s.Slice(); !slices.Equal(got, want) {
			t.Errorf("Parse(%q) = %v, want %v", list, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for list, part := range map[string]string{
		"a": "a", "0-": "0-", "-1": "-1", ",": "", "0,": "", "0,,1": "", "3-1": "3-1",
		"0-1024": "0-1024", "1024": "1024", "0 ": "0 ", " 0": " 0", "0-3:2/4": "0-3:2/4",
		"0-1-2": "0-1-2", "+1": "+1", "99999999999999999999": "99999999999999999999",
		"0,x-2,3": "x-2", "0x1": "0x1", "1\n\n": "1\n", "all": "all",
	} {
		s, err := Parse(list)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Part != part {
			t.Errorf("Parse(%q) = %v, %v; want a SyntaxError for %q", list, s, err, part)
		}
		if !s.IsEmpty() {
			t.Errorf("Parse(%q) returned %v with its error", list, s)
		}
	}
	_, err := Parse(strings.Repeat("9", 5000))
	if len(err.Error()) > 300 {
		t.Errorf("error line of %d bytes", len(err.Error()))
	}
}

func TestIteration(t *testing.T) {
	s := Of(0, 63, 64, 1023)
	if got := slices.Collect(s.All()); !slices.Equal(got, []int{0, 63, 64, 1023}) {
		t.Errorf("All = %v", got)
	}
	if s.First() != 0 || s.Last() != 1023 || s.Next(1) != 63 || s.Next(1024) != -1 || s.Next(-5) != 0 {
		t.Error("First, Last or Next is wrong")
	}
	var none Set
	if none.First() != -1 || none.Last() != -1 || none.Contains(-1) || none.Contains(Max) {
		t.Error("the empty set is not empty")
	}
	for range s.All() { // leaving the loop early must be fine
		break
	}
}

// genSet draws sets of every density.
func genSet(t *rapid.T, name string) Set {
	var s Set
	for _, r := range rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int {
		first := rapid.IntRange(0, Max-1).Draw(t, "first")
		return [2]int{first, min(Max-1, first+rapid.IntRange(0, 130).Draw(t, "more"))}
	}), 0, 12).Draw(t, name) {
		s = s.Union(Range(r[0], r[1]))
	}
	return s
}

// TestAlgebra holds every operation against a map of ids.
func TestAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSet(t, "a"), genSet(t, "b")
		inA, inB := map[int]bool{}, map[int]bool{}
		for _, c := range a.Slice() {
			inA[c] = true
		}
		for _, c := range b.Slice() {
			inB[c] = true
		}
		union, both, minus := a.Union(b), a.Intersect(b), a.Minus(b)
		overlap, subset := false, true
		for c := range Max {
			if union.Contains(c) != (inA[c] || inB[c]) || both.Contains(c) != (inA[c] && inB[c]) ||
				minus.Contains(c) != (inA[c] && !inB[c]) {
				t.Fatalf("wrong at CPU %d", c)
			}
			overlap = overlap || inA[c] && inB[c]
			subset = subset && (!inA[c] || inB[c])
		}
		if a.Overlaps(&b) != overlap || a.SubsetOf(&b) != subset || a.CountIn(&b) != both.Count() || a.Count() != len(inA) {
			t.Fatal("Overlaps, SubsetOf, CountIn or Count is wrong")
		}
		inPlace := a
		if inPlace.AddAll(&b); inPlace != union {
			t.Fatal("AddAll is not Union")
		}
		inPlace = a
		if inPlace.RemoveAll(&b); inPlace != minus {
			t.Fatal("RemoveAll is not Minus")
		}
		n := rapid.IntRange(0, 70).Draw(t, "n")
		low := a.Lowest(n)
		if want := a.Slice()[:min(n, a.Count())]; !slices.Equal(low.Slice(), want) {
			t.Fatalf("Lowest(%d) = %v, want %v", n, low, want)
		}
		back, err := Parse(a.String())
		if err != nil || back != a {
			t.Fatalf("Parse(%q) = %v, %v", a.String(), back, err)
		}
		if got := string(a.Append([]byte("7"))); got != "7"+a.String() {
			t.Fatalf("Append after a digit: %q", got)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	a, b := MustParse("0-63,128-191"), MustParse("32-160")
	var sink Set
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		sink = a.Union(b).Minus(a.Intersect(b)).Lowest(7)
		sink.Add(3)
		sink.Remove(3)
		for cpu := sink.First(); cpu >= 0; cpu = sink.Next(cpu + 1) {
			if !sink.Contains(cpu) || a.CountIn(&b) == 0 || !a.Overlaps(&b) {
				panic("wrong")
			}
		}
		buf = sink.Append(buf[:0])
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParsePossible(t *testing.T) {
	for list, want := range map[string]string{
		"":                             "",
		"0-3\n":                        "0-3",
		"0-1151":                       "0-1023",
		"2,1023-1024,8191":             "2,1023",
		"1024-8191":                    "",
		strings.Repeat("9", 5000):      "",
		"5-" + strings.Repeat("9", 50): "5-1023",
	} {
		if s, err := ParsePossible(list); err != nil || s.String() != want {
			t.Errorf("ParsePossible(%.40q) = %v, %v; want %q", list, s, err, want)
		}
	}
	for _, list := range []string{"0-", "a", "3-1", "1100-1030", "0-15:2/4", "-1", "1,,2"} {
		if s, err := ParsePossible(list); err == nil {
			t.Errorf("ParsePossible(%q) = %v, want an error", list, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0-3,8,10-11\n", "0-", "1023", "5-5,4", "0-15:2/4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := Parse(list)
		if possible, err2 := ParsePossible(list); err == nil && (err2 != nil || possible != s) {
			t.Fatalf("Parse(%q) is %v, ParsePossible is %v, %v", list, s, possible, err2)
		}
		if err != nil {
			return
		}
		if back, err := Parse(s.String()); err != nil || back != s {
			t.Fatalf("%q -> %q -> %v, %v", list, s, back, err)
		}
	})
}

func BenchmarkAlgebra(b *testing.B) {
	x, y := MustParse("0-63,128-191"), MustParse("32-160")
	for b.Loop() {
		x = x.Union(y).Minus(y)
	}
}
