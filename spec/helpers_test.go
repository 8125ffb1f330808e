package spec

import (
	"strings"
	"testing"
)

// TestHelpersOrder: each word is a level, and a later word is a higher level.
func TestHelpersOrder(t *testing.T) {
	if got := max(ShowHelpers, PlaceHelpers, ChargeHelpers); got != ChargeHelpers {
		t.Errorf("the highest level is %v", got)
	}
	for i, word := range HelpersWords {
		level, err := ParseHelpers(word)
		if err != nil || level != Helpers(i) || level.String() != word || level.Check() != nil {
			t.Errorf("%s: %v, %v", word, level, err)
		}
	}
	if s := (Spec{Period: 1e8, View: ViewAffinity, OnResize: "none", Helpers: ChargeHelpers + 1}); s.Check() == nil {
		t.Error("an unknown level was accepted")
	}
}

func FuzzHelpers(f *testing.F) {
	for _, seed := range append(HelpersWords, "", "Show", "3", "show ", "place,charge") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var h Helpers
		err := h.UnmarshalText([]byte(text))
		switch {
		case err == nil && h.String() != text:
			t.Errorf("%q becomes %v", text, h)
		case err != nil && (h != ShowHelpers || strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), "must be one of show, place, charge")):
			t.Errorf("%q: %v, %q", text, h, err)
		}
	})
}
