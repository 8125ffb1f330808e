package survey

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/seencpus"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// TestReportOfFormerNode: the survey ignores the report of a former node with the same name.
func TestReportOfFormerNode(t *testing.T) {
	machine, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		node, owner types.UID
		want        string
	}{
		{"a", "a", ""},
		{"b", "a", "report is of a former node"},
		{"b", "", ""},
		{"", "a", ""},
	} {
		report := v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: nodecpu.Status(n, nodecpu.HolderOf)}
		if test.owner != "" {
			report.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: test.owner}}
		}
		s := newSurvey([]v1alpha1.NodeCPU{report}, []listedNode{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: test.node}}}, nil)
		if got := s.Nodes[0]; got.Problem != test.want || (got.CPUs == nil) != (test.want != "") {
			t.Errorf("%+v: got problem %q", test, got.Problem)
		}
	}
}

// TestSeen: the survey has the CPUs that containers see, with the remedy for a sensitive container without a view. It skips texts
// that no agent writes.
func TestSeen(t *testing.T) {
	got := SeenCPUs(&v1alpha1.NodeCPUStatus{Grants: []v1alpha1.Grant{
		{Pod: "uid-1", Container: "app", Class: "sensitive", Sees: "1/2"}, {Pod: "uid-1", Container: "side", Sees: "1/2"}, {Container: "hid", Class: "sensitive", Sees: "1/?"}, {Container: "job", Sees: "3"}, {Container: "log"}, {Container: "bad", Sees: "1/2/3"},
	}})
	want := map[string]seencpus.Summary{"uid-1/app": {Affinity: 1, Files: 2, Note: otherFilesNote}, "uid-1/side": {Affinity: 1, Files: 2}, "hid": {Affinity: 1}, "job": {Affinity: 3, Files: 3}}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
