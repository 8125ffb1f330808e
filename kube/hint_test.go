package kube

import (
	"reflect"
	"strings"
	"testing"
)

// TestHint: the scheduler's annotation is no setting of the user, and parses to the value that was written.
func TestHint(t *testing.T) {
	h := Hint{Node: "n1", Containers: map[string]string{"web": "0-2,7:500m"}}
	text := h.String()
	if want := `{"node":"n1","containers":{"web":"0-2,7:500m"}}`; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if a, err := Parse(map[string]string{HintKey: text}); err != nil || !reflect.DeepEqual(a, Annotations{}) {
		t.Errorf("%+v, %v: want no value", a, err)
	}
	if got, err := ParseHint(text); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v, %v; want %+v", got, err, h)
	}
}

// TestHintMalformed: a hint that the scheduler cannot have written is refused.
func TestHintMalformed(t *testing.T) {
	for _, text := range []string{
		"", "0-2", "{", "null", "[]", "{}", `{"node":"n1"}`,
		`{"node":1,"containers":{}}`, `{"node":"n1","containers":{"web":7}}`,
		`{"node":"n1","containers":{"web":"0"}} `, `{"node":"n1","containers":{"web":"0"}}{}`,
		`{"Node":"n1","containers":{"web":"0"}}`, `{"node":"n1","containers":{"web":"0"},"more":1}`,
		`{"node":"n1","containers":{"web":"0","web":"1"}}`, `{"containers":{"web":"0"},"node":"n1"}`,
		"{\"node\":\"n\xff\",\"containers\":{}}",
		Hint{strings.Repeat("n", maxNodeName+1), map[string]string{"web": "0"}}.String(),
		Hint{"n1", map[string]string{"web": strings.Repeat("0,", maxHintSize)}}.String(),
	} {
		h, err := ParseHint(text)
		if err == nil {
			t.Errorf("%.80q is read as %+v", text, h)
		} else if said := err.Error(); strings.Contains(said, "\n") || len(said) > 300 || !strings.Contains(said, "must be") && !strings.Contains(said, "maximum") {
			t.Errorf("%.80q: %s", text, said)
		}
	}
}

func FuzzParseHint(f *testing.F) {
	f.Add(`{"node":"n1","containers":{"web":"0-2,7:500m"}}`)
	f.Add(`{"node":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHint(text)
		if err != nil {
			return
		}
		if h.String() != text {
			t.Errorf("%q is read as %s", text, h)
		}
	})
}
