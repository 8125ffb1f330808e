package survey

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/kube/podcpu"
)

// podsName is the resource that bounds the number of a node's pods.
const podsName = "pods"

var one = resource.MustParse("1")

// refusal returns the reason why kube-scheduler itself would refuse the node, in its words; "" if it would accept it, as far as this package
// knows.
func (n *Node) refusal(p *podcpu.Pod, asks podcpu.List) string {
	switch t := n.untolerated(p); {
	case n.missing:
		return "no node of that name"
	case n.spec.Unschedulable && !tolerates(p, taint{Key: "node.kubernetes.io/unschedulable", Effect: noSchedule}):
		return "node(s) were unschedulable"
	case p.Spec.NodeName != "" && p.Spec.NodeName != n.Name:
		return "node(s) didn't match the requested node name"
	case t != nil && t.Value != "":
		return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", t.Key, t.Value)
	case t != nil:
		return fmt.Sprintf("node(s) had untolerated taint {%s}", t.Key)
	case !n.isSelected(p):
		return "node(s) didn't match Pod's node affinity/selector"
	}
	return n.lacks(asks)
}

// Effects of a taint on pods that do not tolerate it.
const (
	noSchedule       = "NoSchedule"
	noExecute        = "NoExecute"
	preferNoSchedule = "PreferNoSchedule"
)

// untolerated is a taint that keeps the pod off the node, nil if none does.
func (n *Node) untolerated(p *podcpu.Pod) *taint {
	for i := range n.spec.Taints {
		t := &n.spec.Taints[i]
		if t.Effect != preferNoSchedule && !tolerates(p, *t) {
			return t
		}
	}
	return nil
}

// tolerates reports whether a pod tolerates a taint. An unknown operator tolerates nothing.
func tolerates(p *podcpu.Pod, t taint) bool {
	for _, o := range p.Spec.Tolerations {
		switch {
		case o.Effect != "" && o.Effect != t.Effect, o.Key != "" && o.Key != t.Key:
		case o.Operator == "Exists":
			return true
		case o.Key != "" && (o.Operator == "" || o.Operator == "Equal") && o.Value == t.Value:
			return true
		}
	}
	return false
}

// isSelected reports whether a node has the labels that the pod wants.
func (n *Node) isSelected(p *podcpu.Pod) bool {
	for name, value := range p.Spec.NodeSelector {
		if has, is := n.labels[name]; !is || has != value {
			return false
		}
	}
	return true
}

// lacks returns the resource of which the node has too little, in kube-scheduler's words. CPU comes first, then memory, then other resources.
func (n *Node) lacks(asks podcpu.List) string {
	if left, is := n.free[podsName]; is && left.Cmp(one) < 0 {
		return "Too many pods"
	}
	names := []string{podcpu.CPU, podcpu.Memory}
	for _, name := range sortedNames(asks) {
		if name != podcpu.CPU && name != podcpu.Memory {
			names = append(names, name)
		}
	}
	for _, name := range names {
		wants := asks[name]
		if left := n.free[name]; wants.Sign() > 0 && wants.Cmp(left) > 0 {
			return "Insufficient " + name
		}
	}
	return ""
}
