package seencpus

import "testing"

func TestString(t *testing.T) {
	for want, s := range map[string]Summary{"-": {}, "2": {Affinity: 2, Files: 2}, "1/2": {Affinity: 1, Files: 2}, "2/?": {Affinity: 2}, "?/4": {Files: 4}} {
		if s.String() != want {
			t.Errorf("%+v: %s, want %s", s, s, want)
		}
		if got, ok := Parse(want); !ok || got != s {
			t.Errorf("%s: %+v, %v; want %+v", want, got, ok, s)
		}
	}
	for _, bad := range []string{"", "2/2", "1/2/3", "0", "01", "-1", "1025", "1/x", " 1", "?"} {
		if s, ok := Parse(bad); ok {
			t.Errorf("%q: %+v, want an error", bad, s)
		}
	}
}
