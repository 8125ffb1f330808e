package kube

import (
	"reflect"
	"testing"
)

// What the scheduler has written is no setting, and is read as it was meant.
func TestHint(t *testing.T) {
	h := Hint{Node: "n1", Containers: map[string]string{"web": "0-2,7:500m"}}
	text := h.String()
	if want := `{"node":"n1","containers":{"web":"0-2,7:500m"}}`; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if a, err := Parse(map[string]string{HintKey: text}); err != nil || !reflect.DeepEqual(a, Annotations{}) {
		t.Errorf("%+v, %v: want nothing said", a, err)
	}
	if got, err := ParseHint(text); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v, %v; want %+v", got, err, h)
	}
	if _, err := ParseHint("0-2"); err == nil {
		t.Error("a list is read as a hint")
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
		if again, err := ParseHint(h.String()); err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%q: %+v is read again as %+v, %v", text, h, again, err)
		}
	})
}
