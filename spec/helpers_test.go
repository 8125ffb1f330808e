package spec

import "testing"

// TestHelpers: each level has a word, and a higher level has a greater value.
func TestHelpers(t *testing.T) {
	for level, word := range map[Helpers]string{HelpersShow: "show", HelpersPlace: "place", HelpersCharge: "charge"} {
		var got Helpers
		if err := got.UnmarshalText([]byte(word)); err != nil || got != level || level.String() != word {
			t.Errorf("%q: got %v, %v, want %v", word, got, err, level)
		}
	}
	if HelpersShow >= HelpersPlace || HelpersPlace >= HelpersCharge {
		t.Error("the levels are out of order")
	}
	for _, bad := range []string{"", "Show", "none", "1", "charge "} {
		h := HelpersPlace
		if err := h.UnmarshalText([]byte(bad)); err == nil || h != HelpersPlace {
			t.Errorf("%q: got %v, %v", bad, h, err)
		}
	}
}
