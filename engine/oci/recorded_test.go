package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// TestRecordedSettings reads each setting of a container under Docker, Podman and nerdctl in both forms: as an annotation and as a
// variable of the environment. Command lines and images of users contain them, so none may vanish.
func TestRecordedSettings(t *testing.T) {
	for _, c := range []struct {
		annotation, variable, value string
		is                          func(*request) bool
	}{
		{"candor.dev/class", "CANDOR_CLASS", "flexible", func(r *request) bool { return r.Class == hybrid.Flexible }},
		{"candor.dev/class", "CANDOR_CLASS", "sensitive", func(r *request) bool { return r.Class == hybrid.Sensitive }},
		{"candor.dev/policy", "CANDOR_POLICY", "best-effort", func(r *request) bool { return r.Policy == hybrid.BestEffort }},
		{"candor.dev/policy", "CANDOR_POLICY", "strict", func(r *request) bool { return r.Policy == hybrid.Strict }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "prefer", func(r *request) bool { return r.Wish == hybrid.Prefer && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "single-numa", func(r *request) bool { return r.Wish == hybrid.SingleNUMA && r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "single-l3", func(r *request) bool { return r.Wish == hybrid.SingleL3 && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "whole-cores", func(r *request) bool { return r.Wish == hybrid.WholeCores && !r.Mems }},
		{"candor.dev/topology", "CANDOR_TOPOLOGY", "none", func(r *request) bool { return r.Wish == hybrid.AnyCPUs && !r.Mems }},
		{"candor.dev/view", "CANDOR_VIEW", "affinity", func(r *request) bool { return r.View == host.ViewAffinity }},
		{"candor.dev/view", "CANDOR_VIEW", "full", func(r *request) bool { return r.View == host.ViewFull }},
		{"candor.dev/period", "CANDOR_PERIOD", "20ms", func(r *request) bool { return r.Period == 20*time.Millisecond }},
		{"candor.dev/movable", "CANDOR_MOVABLE", "false", func(r *request) bool { return r.Immovable }},
		{"candor.dev/movable", "CANDOR_MOVABLE", "true", func(r *request) bool { return !r.Immovable }},
		{"candor.dev/on-resize", "CANDOR_ON_RESIZE", "signal:HUP", func(r *request) bool { return r.OnResize == "signal:HUP" }},
		{"candor.dev/env", "CANDOR_ENV", "true", func(r *request) bool { return r.env }},
		{"candor.dev/preserve", "CANDOR_PRESERVE", "true", func(r *request) bool { return r.ID == "" }}, // Candor leaves it alone
		{"candor.dev/burst", "CANDOR_BURST", "20ms", func(r *request) bool { return r.Burst == host.Burst{Time: 20 * time.Millisecond} }},
		{"candor.dev/burst", "CANDOR_BURST", "kernel", func(r *request) bool { return r.Burst == host.Burst{By: host.BurstKernel} }},
		{"candor.dev/burst", "CANDOR_BURST", "auto", func(r *request) bool { return r.Burst == host.Burst{By: host.BurstKernel} }},
		{"candor.dev/burst", "CANDOR_BURST", "none", func(r *request) bool { return r.Burst == host.Burst{} }},
	} {
		allowed := &Wrapper{Class: hybrid.Sensitive, Host: host.Options{Config: "testdata/host.json"}}
		for _, text := range []string{
			`{"annotations":{"` + c.annotation + `":"` + c.value + `"},` + withCPUs + `}`,
			`{"process":{"env":["` + c.variable + `=` + c.value + `"]},` + withCPUs + `}`,
		} {
			r, err := askedOf(t, allowed, text)
			if err != nil || !c.is(&r) {
				t.Errorf("%s: %v, %+v", text, err, r.Allocation)
			}
		}
	}
}

// TestRecordedBooking reads a booking of candor compare --image, and writes the same bytes. Both programs may be of different
// releases.
func TestRecordedBooking(t *testing.T) {
	stateDir := filepath.Join(t.TempDir(), "lab")
	file := filepath.Join(Bookings(stateDir), "abc")
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
	b, err := readBooking(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.Config != "/run/lab/host.json" || b.Parent != "/candor-lab" || b.Request.ID != "abc" || b.Request.Limit != 1500 ||
		b.Request.Wish != hybrid.SingleL3 || !b.Request.Immovable || b.Spec.Period != 50*time.Millisecond || b.Spec.Burst != (host.Burst{By: host.BurstKernel}) ||
		!b.Spec.Mems || b.Spec.View != host.ViewFull || b.Spec.OnResize != "signal:HUP" || b.Spec.Command != "java" || !b.Taken || b.Usage.CPU != time.Second || b.Usage.Periods != 20 {
		t.Errorf("%+v", *b)
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(file); err != nil || string(saved) != text {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, saved, text)
	}
}
