package nodemap

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// report returns the report of a node of 8 CPUs: CPU 0 is reserved, a sensitive container has a limit of 2500m, and a flexible
// container has a request of 1200m.
func report(t testing.TB) v1alpha1.NodeCPUStatus {
	t.Helper()
	machine, err := topology.Parse("core:8")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(machine, hybrid.Options{Reserved: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []hybrid.Request{{ID: "a/app", Limit: 2500}, {ID: "b/log", Class: hybrid.Flexible, Limit: 3000, Guarantee: 1200}} {
		if _, _, err := n.Place(&r); err != nil {
			t.Fatal(err)
		}
	}
	s := nodecpu.Status(n, nodecpu.HolderOf)
	s.Counter, s.Reported = 1, metav1.NewTime(time.Unix(1_800_000_000, 0))
	return s
}

// TestOf: a map has the CPUs of each use. The free whole CPUs are the shared CPUs beyond the requests: 7 usable CPUs without
// 2500m and 1200m are 3.
func TestOf(t *testing.T) {
	s := report(t)
	n, err := Of("node-1", &s)
	if err != nil || n.State != Ready || n.Counts() != [4]int{1, 4, 1, 2} || n.CPUs[0] != Reserved {
		t.Errorf("%v, %+v", err, n)
	}
	if n.Free != 3 || n.Sensitive != 2500 || n.SharedTime != 0 || n.Reported != 1_800_000_000 {
		t.Errorf("free %d, sensitive %v, shared time %v, reported %d", n.Free, n.Sensitive, n.SharedTime, n.Reported)
	}
}

// TestStates: a report that is missing, given back or invalid has a state and no CPUs.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		change func(*v1alpha1.NodeCPUStatus)
		want   State
		err    string
	}{
		{func(s *v1alpha1.NodeCPUStatus) { *s = v1alpha1.NodeCPUStatus{} }, NoReport, ""},
		{func(s *v1alpha1.NodeCPUStatus) { s.Phase = v1alpha1.GivenBack }, GivenBack, ""},
		{func(s *v1alpha1.NodeCPUStatus) { s.Usable = "0-9" }, Unusable, "usable: CPUs 8-9 are not online"},
		{func(s *v1alpha1.NodeCPUStatus) { s.Machine.Online = "" }, Unusable, "machine.online: no CPU"},
		{func(s *v1alpha1.NodeCPUStatus) { s.Pools.Shared = "1-7" }, Unusable, "pools: each usable CPU must be in exactly one pool"},
		{func(s *v1alpha1.NodeCPUStatus) { s.Pools.Exclusive = "x" }, Unusable, "pools.exclusive: "},
		{func(s *v1alpha1.NodeCPUStatus) { s.Sensitive = "many" }, Unusable, "sensitive: "},
		{func(s *v1alpha1.NodeCPUStatus) { s.Grants[1].Request = "-1" }, Unusable, "grant 1: request: "},
	} {
		s := report(t)
		c.change(&s)
		n, err := Of("node-1", &s)
		if n.State != c.want || n.CPUs != nil || n.Name != "node-1" || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%v, %+v; want state %d, %q", err, n, c.want, c.err)
		}
	}
}

// drawNode draws a node that a record can hold exactly.
func drawNode(t *rapid.T) Node {
	n := Node{
		Name:       rapid.StringN(0, 63, maxName).Draw(t, "name"),
		State:      rapid.SampledFrom([]State{Ready, NoReport, GivenBack, Unusable, Removed}).Draw(t, "state"),
		Free:       rapid.IntRange(0, 1<<16-1).Draw(t, "free"),
		SharedTime: hybrid.Milli(rapid.Uint32().Draw(t, "shared time")),
		Sensitive:  hybrid.Milli(rapid.Uint32().Draw(t, "sensitive")),
		Reported:   int64(rapid.Uint32().Draw(t, "reported")),
	}
	for range rapid.IntRange(0, 200).Draw(t, "CPUs") {
		n.CPUs = append(n.CPUs, Use(rapid.IntRange(0, 3).Draw(t, "use")))
	}
	return n
}

// TestPack: a packed map decodes to the same nodes.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(drawNode), 0, 20).Draw(t, "nodes")
		revision := rapid.Uint64Range(0, MaxRevision).Draw(t, "revision")
		data := Header(revision, len(nodes))
		for i := range nodes {
			var err error
			if data, err = AppendRecord(data, &nodes[i]); err != nil {
				t.Fatal(err)
			}
		}
		got, back, err := Decode(data)
		if err != nil || got != revision || len(back) != len(nodes) || len(nodes) > 0 && !reflect.DeepEqual(back, nodes) {
			t.Fatalf("%v, revision %d, %+v\nwant %d, %+v", err, got, back, revision, nodes)
		}
		for _, cut := range []int{0, headerSize - 1, len(data) - 1} {
			if _, _, err := Decode(data[:cut]); err == nil {
				t.Fatalf("no error for %d of %d bytes", cut, len(data))
			}
		}
	})
}

// TestPackBounds: a record takes 2 bits for each CPU: 5,000 nodes of 64 CPUs take 80 KB without their names and numbers. Numbers
// that do not fit are replaced by the largest number that fits, and names that do not fit are an error.
func TestPackBounds(t *testing.T) {
	n := Node{Name: "n", CPUs: make([]Use, 64), Free: 1 << 20, Sensitive: 1 << 40, SharedTime: -1}
	data, err := AppendRecord(nil, &n)
	if err != nil || len(data) != recordSize+1+16 {
		t.Fatalf("%v, %d bytes", err, len(data))
	}
	var back Node
	if rest, err := back.decode(data); err != nil || len(rest) != 0 || back.Free != 1<<16-1 || back.Sensitive != 1<<32-1 || back.SharedTime != 0 {
		t.Errorf("%v, %+v", err, back)
	}
	for _, n := range []Node{{Name: strings.Repeat("n", maxName+1)}, {CPUs: make([]Use, maxCPUs+1)}} {
		if _, err := AppendRecord(nil, &n); err == nil {
			t.Errorf("no error for %d bytes and %d CPUs", len(n.Name), len(n.CPUs))
		}
	}
}

// FuzzDecode: any input is an error, or a map that encodes to an input with the same nodes.
func FuzzDecode(f *testing.F) {
	s := report(f)
	n, err := Of("node-1", &s)
	if err != nil {
		f.Fatal(err)
	}
	record, err := AppendRecord(nil, &n)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(Header(7, 1), record...))
	f.Add(Header(1<<52, 0))
	f.Add([]byte("CNDR"))
	f.Fuzz(func(t *testing.T, data []byte) {
		revision, nodes, err := Decode(data)
		if err != nil {
			return
		}
		again := Header(revision, len(nodes))
		for i := range nodes {
			if len(nodes[i].Name) > maxName {
				return // 254 and 255 bytes decode, and no encoder writes them
			}
			if again, err = AppendRecord(again, &nodes[i]); err != nil {
				t.Fatal(err)
			}
		}
		_, back, err := Decode(again)
		if err != nil || !reflect.DeepEqual(back, nodes) {
			t.Fatalf("%v, %+v\nwant %+v", err, back, nodes)
		}
		if len(again) != len(data) || !bytes.Equal(again[:headerSize], data[:headerSize]) {
			t.Fatalf("%d bytes, want %d", len(again), len(data))
		}
	})
}
