package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// TestRecordedSettings reads each container setting of Docker, Podman and nerdctl as an annotation and as an
// environment variable. Users have them in scripts and images, so each must stay supported.
func TestRecordedSettings(t *testing.T) {
	for _, c := range []struct {
		annotation, variable, value string
		is                          func(*request) bool
	}{
		{"candor.dev/class", "CANDOR_CLASS", "flexible", func(r *request) bool { return r.Class == hybrid.Flexible }},
		{"candor.dev/class", "CANDOR_CLASS", "sensitive", func(r *request) bool { return r.Class == hybrid.Sensitive }},
		{"candor.dev/policy", "CANDOR_POLICY", "best-effort", func(r *request) bool { return r.Policy == hybrid.BestEffort }},
		{"candor.dev/policy", "CANDOR_POLICY", "strict", func(r *request) bool { return r.Policy == hybrid.Strict }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "prefer", func(r *request) bool { return r.Topology == hybrid.Prefer && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "single-numa", func(r *request) bool { return r.Topology == hybrid.SingleNUMA && r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "single-l3", func(r *request) bool { return r.Topology == hybrid.SingleL3 && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "whole-cores", func(r *request) bool { return r.Topology == hybrid.WholeCores && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "none", func(r *request) bool { return r.Topology == hybrid.NoTopology && !r.Mems }},
		{"candor.dev/view", "CANDOR_VIEW", "affinity", func(r *request) bool { return r.View == spec.ViewAffinity }},
		{"candor.dev/view", "CANDOR_VIEW", "full", func(r *request) bool { return r.View == spec.ViewFull }},
		{"candor.dev/period", "CANDOR_PERIOD", "20ms", func(r *request) bool { return r.Period == 20*time.Millisecond }},
		{"candor.dev/movable", "CANDOR_MOVABLE", "false", func(r *request) bool { return r.Immovable }},
		{"candor.dev/movable", "CANDOR_MOVABLE", "true", func(r *request) bool { return !r.Immovable }},
		{"candor.dev/on-resize", "CANDOR_ON_RESIZE", "signal:HUP", func(r *request) bool { return r.OnResize == "signal:HUP" }},
		{"candor.dev/env", "CANDOR_ENV", "true", func(r *request) bool { return r.env }},
		{"candor.dev/preserve", "CANDOR_PRESERVE", "true", func(r *request) bool { return r.ID == "" }}, // Candor does not manage the container
		{"candor.dev/helpers", "CANDOR_HELPERS", "show", func(r *request) bool { return r.Helpers == spec.HelpersShow }},
		{"candor.dev/helpers", "CANDOR_HELPERS", "place", func(r *request) bool { return r.Helpers == spec.HelpersPlace }},
		{"candor.dev/helpers", "CANDOR_HELPERS", "charge", func(r *request) bool { return r.Helpers == spec.HelpersCharge }},
		{"candor.dev/burst", "CANDOR_BURST", "20ms", func(r *request) bool { return r.Burst == spec.Burst{Time: 20 * time.Millisecond} }},
		{"candor.dev/burst", "CANDOR_BURST", "kernel", func(r *request) bool { return r.Burst == spec.Burst{By: spec.BurstKernel} }},
		{"candor.dev/burst", "CANDOR_BURST", "auto", func(r *request) bool { return r.Burst == spec.Burst{By: spec.BurstKernel} }},
		{"candor.dev/burst", "CANDOR_BURST", "none", func(r *request) bool { return r.Burst == spec.Burst{} }},
	} {
		allowed := &Wrapper{Class: hybrid.Sensitive, Host: host.Options{Config: "testdata/host.json"}}
		for _, text := range []string{
			`{"annotations":{"` + c.annotation + `":"` + c.value + `"},` + withCPUs + `}`,
			`{"process":{"env":["` + c.variable + `=` + c.value + `"]},` + withCPUs + `}`,
		} {
			r, err := parseRequest(t, allowed, text)
			if err != nil || !c.is(&r) {
				t.Errorf("%s: %v, %+v", text, err, r.Allocation)
			}
		}
	}
}

// TestRecordedOverride reads an override that candor compare --image has written, and saves the same bytes.
// The two programs can have different versions.
func TestRecordedOverride(t *testing.T) {
	stateDir := filepath.Join(t.TempDir(), "lab")
	file := filepath.Join(Overrides(stateDir), "abc")
	recorded, err := os.ReadFile("testdata/booking.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(strings.TrimSpace(string(recorded)), "/run/lab\"", stateDir+"\"", 1)
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := readOverride(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.Config != "/run/lab/host.json" || b.Parent != "/candor-lab" || b.Request.ID != "abc" || b.Request.Limit != 1500 ||
		b.Request.Topology != hybrid.SingleL3 || !b.Request.Immovable || b.Spec.Period != 50*time.Millisecond || b.Spec.Burst != (spec.Burst{By: spec.BurstKernel}) ||
		!b.Spec.Mems || b.Spec.View != spec.ViewFull || b.Spec.OnResize != "signal:HUP" || b.Spec.Command != "java" || !b.Applied || b.Usage.CPU != time.Second || b.Usage.Periods != 20 {
		t.Errorf("%+v", *b)
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(file); err != nil || string(saved) != text {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, saved, text)
	}
}
