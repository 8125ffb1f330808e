package kube

import (
	"errors"
	"fmt"
	"testing"
)

// TestPodTemplateKinds: an object of a kind of Kubernetes itself takes precedence over custom resources.
func TestPodTemplateKinds(t *testing.T) {
	const form = "kind: %s\nmetadata: {name: %[1]s}\nspec: {template: {spec: {containers: []}}}\n---\n"
	for _, c := range []struct {
		kinds []string
		name  string // "": ErrSeveral
	}{
		{[]string{"Rollout"}, "Rollout"},
		{[]string{"Deployment", "Rollout"}, "Deployment"},
		{[]string{"Rollout", "CloneSet", "StatefulSet"}, "StatefulSet"},
		{[]string{"Rollout", "CloneSet"}, ""},
		{[]string{"Deployment", "Rollout", "StatefulSet"}, ""},
	} {
		text := ""
		for _, kind := range c.kinds {
			text += fmt.Sprintf(form, kind)
		}
		got, err := PodTemplate([]byte(text))
		if got.Name != c.name || errors.Is(err, ErrSeveral) != (c.name == "") || c.name != "" && err != nil {
			t.Errorf("%v: %q, %v; want %q", c.kinds, got.Name, err, c.name)
		}
	}
}
