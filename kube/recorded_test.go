package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/candor-project/candor/kube"
)

// format returns the settings that are not nil, in the order of the table in docs/kubernetes.md.
func format(s kube.Settings) string {
	var all []string
	add := func(name string, isSet bool, value func() any) {
		if isSet {
			all = append(all, fmt.Sprint(name, "=", value()))
		}
	}
	add("class", s.Class != nil, func() any { return *s.Class })
	add("policy", s.Policy != nil, func() any { return *s.Policy })
	add("topology", s.Topology != nil, func() any { return *s.Topology })
	add("view", s.View != nil, func() any { return *s.View })
	add("period", s.Period != nil, func() any { return *s.Period })
	add("movable", s.Movable != nil, func() any { return *s.Movable })
	add("on-resize", s.OnResize != nil, func() any { return *s.OnResize })
	add("env", s.Env != nil, func() any { return *s.Env })
	add("preserve", s.Preserve != nil, func() any { return *s.Preserve })
	add("burst", s.Burst != nil, func() any { return *s.Burst })
	add("helpers", s.Helpers != nil, func() any { return *s.Helpers })
	return strings.Join(all, " ")
}

// recordedValues maps each setting and each accepted value to the parsed value. Annotations, CPUProfiles and
// configuration files contain these values, so never remove a value.
var recordedValues = map[string]map[string]string{
	"class":     {"sensitive": "sensitive", "flexible": "flexible"},
	"policy":    {"strict": "strict", "best-effort": "best-effort"},
	"topology":  {"prefer": "prefer", "single-numa": "single-numa", "single-l3": "single-l3", "whole-cores": "whole-cores", "none": "none"},
	"view":      {"full": "full", "affinity": "affinity", "cpu": "cpu", "full+stat": "full+stat"},
	"period":    {"1ms": "1ms", "20ms": "20ms", "0.1s": "100ms", "1s": "1s", "1500us": "1.5ms"},
	"movable":   {"true": "true", "false": "false"},
	"on-resize": {"none": "none", "signal:HUP": "signal:HUP", "signal:SIGUSR1": "signal:SIGUSR1", "signal:usr2": "signal:usr2"},
	"env":       {"true": "true", "false": "false"},
	"preserve":  {"true": "true", "false": "false"},
	"helpers":   {"show": "show", "place": "place", "charge": "charge"},
	"burst":     {"none": "none", "kernel": "kernel", "quota": "quota", "auto": "auto", "0s": "none", "20ms": "20ms", "1500us": "1.5ms"},
}

// TestRecordedAnnotations parses each recorded value as an annotation of a pod, as an annotation of a
// container, and with Set.
func TestRecordedAnnotations(t *testing.T) {
	if names := kube.Names(); len(names) != len(recordedValues) {
		t.Errorf("got %d settings %v, want %d as in the table", len(names), names, len(recordedValues))
	}
	for setting, values := range recordedValues {
		for value, want := range values {
			want = setting + "=" + want
			for key, containers := range map[string]map[string]string{
				"candor.dev/" + setting:          {"app": want, "log": want},
				setting + ".candor.dev/app":      {"app": want, "log": ""},
				setting + ".candor.dev/my-app.1": {"my-app.1": want, "app": ""},
			} {
				a, err := kube.Parse(map[string]string{key: value, "example.com/" + setting: "x"})
				if err != nil {
					t.Errorf("%s: %s: %v", key, value, err)
					continue
				}
				for container, want := range containers {
					if got := format(a.For(container)); got != want {
						t.Errorf("%s: %s: container %s has %q, want %q", key, value, container, got, want)
					}
				}
			}
			var s kube.Settings
			if err := s.Set(setting, value); err != nil || format(s) != want {
				t.Errorf("Set(%q, %q): %v, %q, want %q", setting, value, err, format(s), want)
			}
		}
	}
}

// TestRecordedHint: the annotation with the CPUs that the scheduler chose parses and formats as in earlier
// versions.
func TestRecordedHint(t *testing.T) {
	const text = `{"node":"node-1","containers":{"app":"0-2,7:500m","log":"4"}}`
	h, err := kube.ParseHint(text)
	if err != nil || h.Node != "node-1" || len(h.Containers) != 2 || h.Containers["app"] != "0-2,7:500m" || h.Containers["log"] != "4" || h.String() != text {
		t.Errorf("got %v, node %s, containers %v, formatted %s", err, h.Node, h.Containers, h)
	}
	if kube.HintKey != "candor.dev/hint" {
		t.Errorf("got hint key %s, want candor.dev/hint", kube.HintKey)
	}
}
