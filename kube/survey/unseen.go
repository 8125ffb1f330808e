package survey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/candor-project/candor/kube/podcpu"
)

// ignoredFields lists the fields of a pod that affect kube-scheduler but are not evaluated here.
func ignoredFields(p *podcpu.Pod) (lines []string) {
	say := func(is bool, what string) {
		if is {
			lines = append(lines, what)
		}
	}
	s := &p.Spec
	ports, volumes := 0, 0
	for _, all := range [][]podcpu.Container{s.InitContainers, s.Containers} {
		for i := range all {
			for _, port := range all[i].Ports {
				if port.Host != 0 {
					ports++
				}
			}
		}
	}
	for _, v := range s.Volumes {
		if v.Claim || v.Ephemeral {
			volumes++
		}
	}
	say(bool(s.Affinity.Node), "the pod's node affinity")
	say(bool(s.Affinity.Pod), "the pod's affinity to other pods")
	say(bool(s.Affinity.AntiPod), "the pod's anti-affinity to other pods")
	say(bool(s.Spread), "the pod's topologySpreadConstraints")
	say(ports > 0, count(ports, "host port")+" of the pod")
	say(volumes > 0, count(volumes, "volume")+" of the pod, which can exclude nodes")
	say(bool(s.Claims), "the pod's resourceClaims")
	say(bool(s.Gates), "the pod's schedulingGates: the pod waits until they are removed")
	say(bool(s.RuntimeClass), "the pod's runtimeClassName: its overhead and nodes")
	say(bool(s.Priority), "the pod's priorityClassName, which can preempt other pods")
	for _, t := range s.Tolerations {
		say(t.Operator != "" && t.Operator != "Equal" && t.Operator != "Exists", fmt.Sprintf("a toleration of %.60q with the unknown operator %.20q: ignored", t.Key, t.Operator))
	}
	return lines
}

// Unseen lists the facts of the cluster that affect kube-scheduler but are not evaluated here.
func (s *Survey) Unseen() (lines []string) {
	unknown := map[string]int{}
	for i := range s.Nodes {
		for _, t := range s.Nodes[i].spec.Taints {
			if t.Effect != noSchedule && t.Effect != noExecute && t.Effect != preferNoSchedule {
				unknown[t.Effect]++
			}
		}
	}
	for _, effect := range slices.Sorted(maps.Keys(unknown)) {
		lines = append(lines, fmt.Sprintf("%s with the unknown effect %.40q: treated as NoSchedule", count(unknown[effect], "taint"), effect))
	}
	if s.nominated > 0 {
		lines = append(lines, count(s.nominated, "pod")+" nominated to a node by preemption: the CPUs that they will need")
	}
	if s.antiAffinity > 0 {
		lines = append(lines, count(s.antiAffinity, "running pod")+" with anti-affinity, which can exclude nodes")
	}
	return lines
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
