package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// The files in testdata are from earlier releases. They never change: a node reads them after an upgrade.
func recordedState(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// saved returns the file that a state is saved to.
func saved(s State) []byte { return (&Saved{State: s}).Encode() }

// TestRecordedState2 loads a state with all fields of version 2, checks their meaning, and saves the same bytes.
func TestRecordedState2(t *testing.T) {
	text := recordedState(t, "state-2.json")
	s, err := decodeState(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := saved(s); !bytes.Equal(got, text) {
		t.Errorf("saved:\n%s\nloaded:\n%s", got, text)
	}
	degraded := *s.Grants[0]
	degraded.Lost = cpuset.Of(1)
	if got := saved(State{Boot: s.Boot, Grants: append([]*Grant{&degraded}, s.Grants[1:]...)}); !bytes.Equal(got, text) {
		t.Errorf("a grant with lost CPUs is saved in another form:\n%s", got)
	}
	const pod = "6f4b2d1e-0000-4000-8000-000000000001"
	const containers = "/kubepods.slice/kubepods-pod" + pod + ".slice/cri-containerd-"
	ms := time.Millisecond
	kubelet, none := Process{900, 10900}, hybrid.NoGuarantee
	want := []Grant{
		{State: Running, Creator: Process{1001, 20001}, Main: Process{1002, 20002}, Since: 30001 * ms,
			Spec:  spec.Spec{Period: 100 * ms, View: spec.ViewCPU, OnResize: "signal:HUP", Command: "java"},
			Grant: granted(hybrid.Request{ID: "web", Limit: 1500, Topology: hybrid.SingleL3}, "0-1", "0", 1500, 1000, hybrid.Fraction{CPU: 1, Milli: 500})},
		{State: Running, Creator: Process{1011, 20011}, Main: Process{1012, 20012}, Since: 30002 * ms, Lease: Lease{To: Process{1011, 20011}, Until: 90002 * ms},
			Spec:  spec.Spec{Period: 50 * ms, Burst: spec.Burst{By: spec.BurstQuota}, View: spec.ViewAffinity, OnResize: "exec:sh '/run/candor/commands/log'", Command: "logger"},
			Grant: granted(hybrid.Request{ID: "log", Class: hybrid.Flexible, Limit: 400, Topology: hybrid.NoTopology}, "6-7", "", 400, 400)},
		{State: Running, Creator: kubelet, Main: Process{1022, 20022}, Since: 30003 * ms,
			Engine: Engine{containers + "0001.scope", pod, "sandbox-0001", "shop/shop-0/app"},
			Spec:   spec.Spec{Period: 20 * ms, Burst: spec.Burst{By: spec.BurstAuto}, Mems: true, View: spec.ViewCPU, OnResize: "none", Command: "shop/shop-0/app"},
			Grant:  granted(hybrid.Request{ID: "shop-0.app-bdc150ce", Limit: 1000, Topology: hybrid.SingleNUMA, Immovable: true}, "2", "2", 0, 1000)},
		{State: Held, Creator: kubelet, Main: Process{1032, 20032}, Since: 30004 * ms,
			Engine: Engine{containers + "0002.scope", pod, "sandbox-0001", "shop/shop-0/proxy"},
			Spec:   spec.Spec{Period: 100 * ms, Burst: spec.Burst{By: spec.BurstKernel}, View: spec.ViewAffinity, OnResize: "none", Command: "shop/shop-0/proxy"},
			Grant:  granted(hybrid.Request{ID: "shop-0.proxy-2a3b4c5d", Class: hybrid.Flexible, Limit: 2000, Guarantee: 250}, "6-7", "", 2000, 250)},
		{State: Pending, Creator: kubelet, Since: 30005 * ms, Deadline: 60005 * ms,
			Engine: Engine{containers + "0003.scope", pod, "sandbox-0002", "shop/shop-0/init"},
			Spec:   spec.Spec{Period: 100 * ms, View: spec.ViewCPU, OnResize: "none", Command: "shop/shop-0/init"},
			Grant: granted(hybrid.Request{ID: "shop-0.init-3c4d5e6f", Limit: 2500, Policy: hybrid.BestEffort, Topology: hybrid.WholeCores},
				"3-5", "3-4", 2500, 1500, hybrid.Fraction{CPU: 5, Milli: 500})},
		{State: Running, Creator: Process{1051, 20051}, Main: Process{1052, 20052}, Since: 30006 * ms,
			Engine: Engine{Cgroup: "/docker/0123456789ab"},
			Spec:   spec.Spec{Period: 100 * ms, Burst: spec.Burst{Time: 20 * ms}, View: spec.ViewAffinity, OnResize: "none", Command: "nginx"},
			Grant:  granted(hybrid.Request{ID: "0123456789ab", Class: hybrid.Flexible, Limit: 1000, Guarantee: none}, "6-7", "", 1000, 10)},
	}
	want[4].TopologyMet = false
	if s.Boot != "00000000-0000-4000-8000-00000000b007" || len(s.Grants) != len(want) {
		t.Fatalf("boot %s, %d grants", s.Boot, len(s.Grants))
	}
	for i := range want {
		if got := s.Grants[i]; !got.Equal(&want[i]) {
			t.Errorf("loaded %+v\nwant   %+v", *got, want[i])
		}
	}
}

// granted is a grant whose topology policy is met.
func granted(r hybrid.Request, cpus, exclusive string, quota, weight hybrid.Milli, fractions ...hybrid.Fraction) hybrid.Grant {
	return hybrid.Grant{Request: r, CPUs: cpuset.MustParse(cpus), Exclusive: cpuset.MustParse(exclusive), Fractions: fractions,
		Quota: quota, Weight: weight, TopologyMet: true}
}

// TestRecordedState1 loads a state that version 1 has written. It is saved as version 2, without the arguments of programs.
func TestRecordedState1(t *testing.T) {
	s, err := decodeState(recordedState(t, "state-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := saved(s), recordedState(t, "state-1-as-2.json"); !bytes.Equal(got, want) {
		t.Errorf("saved:\n%s\nwant:\n%s", got, want)
	}
}

// TestRecordedRequests loads the requests beside the state, which adoption reads when the state is lost.
func TestRecordedRequests(t *testing.T) {
	for _, c := range []struct{ file, id, savedAs string }{
		{"request-1.json", "log", "request-1-as-2.json"},
		{"request-2.json", "log", "request-2.json"},
		{"request-2-pod.json", "shop-0.app-bdc150ce", "request-2-pod.json"},
	} {
		var g Grant
		g.ID = c.id
		if err := decodeLabel(recordedState(t, c.file), &g); err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got, want := encodeLabel(&g), recordedState(t, c.savedAs); !bytes.Equal(got, want) {
			t.Errorf("%s saved:\n%s\nwant:\n%s", c.file, got, want)
		}
	}
}

// TestRecordedPreserved loads the record of a container that keeps its own CPUs and saves the same bytes.
func TestRecordedPreserved(t *testing.T) {
	s := NewStore(t.TempDir())
	if err := os.Mkdir(filepath.Dir(s.PreservedFile("web")), 0o755); err != nil {
		t.Fatal(err)
	}
	text := recordedState(t, "preserved.json")
	if err := os.WriteFile(s.PreservedFile("web"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	p, ok := s.LoadPreserved("web")
	if !ok || p.CPUs.String() != "2-3" || p.By != (Process{1001, 20001}) {
		t.Fatalf("loaded %t, %+v", ok, p)
	}
	if err := s.SavePreserved("web", p); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(s.PreservedFile("web")); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, got, text)
	}
}

// TestRecordedRetained loads the place of a container that an OCI runtime has deleted and saves the same bytes.
func TestRecordedRetained(t *testing.T) {
	text := recordedState(t, "kept.json")
	var k retainedFile
	if err := fileio.DecodeStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	g, err := k.Grant.grant()
	if err != nil || g.ID != "web" || g.CPUs.String() != "0-1" || k.UntilMs != 90000 {
		t.Errorf("%v, until %d, %+v", err, k.UntilMs, g)
	}
	if got, err := fileio.JSONText(retainedFile{k.Boot, k.UntilMs, newFileGrant(&g)}); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, got, text)
	}
}
