package survey

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/candor-project/candor/hybrid"
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
