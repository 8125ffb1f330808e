package kube

import (
	"reflect"
	"strings"
	"testing"
)

// TestHint: ParseHint returns the hint that String formatted, and Parse ignores the annotation.
func TestHint(t *testing.T) {
	h := Hint{Node: "n1", Containers: map[string]string{"web": "0-2,7:500m"}}
	text := h.String()
	if want := `{"node":"n1","containers":{"web":"0-2,7:500m"}}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if a, err := Parse(map[string]string{HintKey: text}); err != nil || !reflect.DeepEqual(a, Annotations{}) {
		t.Errorf("got %+v, %v; want no setting", a, err)
	}
	if got, err := ParseHint(text); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v; want %+v", got, err, h)
	}
}

// TestHintMalformed: ParseHint refuses a text that String does not produce, with a short error of a single
// line.
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
			t.Errorf("%.80q: got %+v, want an error", text, h)
		} else if message := err.Error(); strings.Contains(message, "\n") || len(message) > 300 || !strings.Contains(message, "must be") && !strings.Contains(message, "maximum") {
			t.Errorf("%.80q: got error %s", text, message)
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
			t.Errorf("%q: formatted as %s, want the same text", text, h)
		}
	})
}
