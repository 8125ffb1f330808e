package spec

import (
	"strings"
	"testing"
)

func FuzzBurst(f *testing.F) {
	for _, seed := range append(BurstWords, "20ms", "0s", "-1ms", "1ns", "often") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b, again Burst
		err := b.UnmarshalText([]byte(text))
		switch {
		case err != nil && (b != Burst{} || strings.ContainsAny(err.Error(), "\n\r")):
			t.Errorf("%q: %+v, %q", text, b, err)
		case err == nil && (b.Check() != nil || again.UnmarshalText([]byte(b.String())) != nil || again != b):
			t.Errorf("%q: %+v becomes %+v", text, b, again)
		}
	})
}
