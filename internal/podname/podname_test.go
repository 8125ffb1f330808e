package podname

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]Name{
		"default/web-0/app": {"default", "web-0", "app"},
		"a/b/c":             {"a", "b", "c"},
		"":                  {}, "web": {}, "a/b": {}, "a/b/c/d": {}, "/b/c": {}, "a//c": {}, "a/b/": {},
	} {
		got := Parse(text)
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		if got != (Name{}) && got.String() != text || got == (Name{}) && got.String() != "" {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
	if got := (Name{Container: "web"}).String(); got != "web" {
		t.Errorf("outside of pods: got %q, want web", got)
	}
}
