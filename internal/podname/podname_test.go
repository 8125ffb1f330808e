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

// TestPartsOf: a name of an engine has the part container, and an ID that stands for a name has no parts.
func TestPartsOf(t *testing.T) {
	const id = "0123456789abcdef"
	for name, want := range map[string]Name{
		"default/web-0/app": {"default", "web-0", "app"},
		"web":               {Container: "web"},
		"0123":              {Container: "0123"}, // shorter than the ID that engines show
		id:                  {},
		id[:12]:             {},
	} {
		if got := PartsOf(name, id); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}
