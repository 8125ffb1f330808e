package profile

import (
	"strings"
	"testing"
)

func TestManifest(t *testing.T) {
	const want = `apiVersion: candor.dev/v1alpha1
kind: CPUProfile
metadata:
  name: solver
spec:
  selector:
    matchLabels:
      app: solver
  images:
    - '*/solver:*'
  class: sensitive
`
	text, err := Manifest("solver", map[string]string{"app": "solver"}, []string{"*/solver:*"}, "sensitive")
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if !IsManifest(text) || IsManifest([]byte("kind: Deployment\n")) || IsManifest(nil) || IsManifest([]byte("kind: [")) {
		t.Error("IsManifest refuses a profile or accepts another text")
	}
	for want, m := range map[string]func() ([]byte, error){
		"name of a CPUProfile": func() ([]byte, error) { return Manifest("a_b", nil, []string{"*"}, "flexible") },
		"must have a selector": func() ([]byte, error) { return Manifest("a", nil, nil, "flexible") },
		"none of them empty":   func() ([]byte, error) { return Manifest("a", nil, []string{""}, "flexible") },
		"selector":             func() ([]byte, error) { return Manifest("a", map[string]string{"a b": ""}, nil, "flexible") },
		"class":                func() ([]byte, error) { return Manifest("a", nil, []string{"*"}, "best") },
	} {
		if _, err := m(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
