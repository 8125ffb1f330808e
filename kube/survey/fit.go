package survey

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/kube/podcpu"
)

// podsName is the name of the resource that bounds the number of pods on a node.
const podsName = "pods"

var one = resource.MustParse("1")

// refusal returns the reason why kube-scheduler's own plugins would refuse the node, in the words of kube-scheduler. It returns "" if the
// known rules accept the node.
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
	return n.shortage(asks)
}

// Effects of a taint on pods that do not tolerate it.
const (
	noSchedule       = "NoSchedule"
	noExecute        = "NoExecute"
	preferNoSchedule = "PreferNoSchedule"
)

// untolerated returns the first taint of the node that the pod does not tolerate, or nil. It ignores taints with the effect
// PreferNoSchedule.
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

// isSelected reports whether the node has all labels of the pod's node selector.
func (n *Node) isSelected(p *podcpu.Pod) bool {
	for name, value := range p.Spec.NodeSelector {
		if has, is := n.labels[name]; !is || has != value {
			return false
		}
	}
	return true
}

// shortage returns the first resource of which the node has too little, in the words of kube-scheduler, or "". It checks the number of
// pods, CPU, memory, and then other resources by name.
func (n *Node) shortage(asks podcpu.List) string {
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
