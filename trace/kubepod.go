package trace

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"
)

// A kubePodObject has the fields of a pod that are read.
type kubePodObject struct {
	Metadata struct {
		Name, Namespace   string
		CreationTimestamp time.Time
		OwnerReferences   []struct{ Kind, Name string }
	}
	Spec struct {
		NodeName                  string
		Containers                []kubeContainer
		InitContainers            []kubeContainer
		Overhead                  kubeResources
		Priority                  int32
		Affinity                  json.RawMessage
		NodeSelector              map[string]string
		TopologySpreadConstraints []json.RawMessage
	}
	Status struct{ Phase, QOSClass string }
}

type kubeContainer struct {
	RestartPolicy string
	Resources     struct{ Requests kubeResources }
}

// name returns NAMESPACE/NAME of the pod.
func (o *kubePodObject) name() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

// addPod reads the next pod, and adds the pod to k.pods if the pod needs resources.
func (k *kubectl) addPod() error {
	var o kubePodObject
	if err := k.list.decode(&o); err != nil {
		return err
	}
	name := o.name()
	switch {
	case o.Metadata.Name == "":
		return k.list.itemError("pod without a name", "metadata.name is required")
	case k.names[name]:
		return k.list.itemError("pod listed twice", "pod %s", name)
	}
	k.names[name] = true
	runs, err := k.needsResources(&o)
	if err != nil || !runs {
		return err
	}
	class := slices.IndexFunc(kubeClasses, func(c Class) bool { return c.Name == o.Status.QOSClass })
	if class < 0 {
		return k.list.itemError("QoS class", "pod %s: %q: must be BestEffort, Burstable or Guaranteed", name, o.Status.QOSClass)
	}
	c, asks, err := o.requests()
	if err == nil {
		err = k.checkPodFits(c)
	}
	if err != nil {
		return k.list.itemError("pod's request", "pod %s: %v", name, err)
	}
	k.note(&o)
	p := kubePod{name: name, owner: o.owner(), created: o.Metadata.CreationTimestamp, priority: o.Spec.Priority}
	p.lifetime = lifetime{Event: Event{CPU: c.cpu, Memory: c.memory, Class: uint8(class), Flags: AtStart}, until: kubeSpan, reason: Lost}
	if !asks {
		p.Flags |= NoRequest
	}
	k.pods = append(k.pods, p)
	return nil
}

// needsResources reports whether a pod has a node and has not ended. If k.submits is set, it also returns true for a pod that
// waits for a node.
func (k *kubectl) needsResources(o *kubePodObject) (bool, error) {
	name, node := o.name(), o.Spec.NodeName
	switch o.Status.Phase {
	case "Succeeded", "Failed":
		k.notes.add("pods that have ended", "pod "+name)
		return false, nil
	case "Pending", "Running", "Unknown":
	default:
		return false, k.list.itemError("phase", "pod %s: %q: must be Pending, Running, Succeeded, Failed or Unknown", name, o.Status.Phase)
	}
	switch {
	case node == "" && !k.submits:
		k.notes.add("pods that never started", "pod "+name)
		return false, nil
	case node != "" && !k.nodes[node]:
		return false, k.list.itemError("unknown machine", "pod %s: node %q is not in nodes.json", name, node)
	}
	return true, nil
}

// checkPodFits returns an error if a request is larger than the largest node.
func (k *kubectl) checkPodFits(c capacity) error {
	if fault, ok := errors.AsType[*SyntaxError](k.checkFits(c, &table{})); ok {
		return errors.New(fault.Problem + ": " + fault.Detail)
	}
	return nil
}

// requests returns the total request of a pod, as kube-scheduler computes it. The request is the higher of two values, plus the
// pod's overhead. The first value is the sum of all containers and sidecars. The second value is the largest sum of an init
// container and the sidecars that precede it. asks reports whether any container requests CPU.
func (o *kubePodObject) requests() (sum capacity, asks bool, err error) {
	var cpu, memory, initCPU, initMemory int64
	add := func(r kubeResources, isInit bool) {
		c, e := r.capacity(math.Ceil)
		if err == nil {
			err = e
		}
		asks = asks || r["cpu"] != ""
		if isInit { // an init container ends before the containers start
			initCPU, initMemory = max(initCPU, cpu+int64(c.cpu)), max(initMemory, memory+int64(c.memory))
			return
		}
		cpu, memory = cpu+int64(c.cpu), memory+int64(c.memory)
	}
	for _, c := range o.Spec.InitContainers {
		add(c.Resources.Requests, c.RestartPolicy != "Always")
	}
	for _, c := range o.Spec.Containers {
		add(c.Resources.Requests, false)
	}
	cpu, memory = max(cpu, initCPU), max(memory, initMemory)
	add(o.Spec.Overhead, false)
	if err == nil && (cpu > math.MaxInt32 || memory > math.MaxInt32) {
		err = errors.New("too large: the maximum is 2,147,483,647 milli-CPU and MiB")
	}
	return capacity{int32(cpu), int32(memory)}, asks, err
}

// owner returns NAMESPACE/KIND/NAME of the pod's first owner, or the pod's name.
func (o *kubePodObject) owner() string {
	if owners := o.Metadata.OwnerReferences; len(owners) > 0 {
		return o.Metadata.Namespace + "/" + owners[0].Kind + "/" + owners[0].Name
	}
	return o.name()
}

// note counts the properties of a pod that events cannot represent.
func (k *kubectl) note(o *kubePodObject) {
	where := "pod " + o.name()
	if len(o.Spec.Affinity) > 0 && string(o.Spec.Affinity) != "null" && string(o.Spec.Affinity) != "{}" {
		k.notes.add("pods with affinity", where)
	}
	if len(o.Spec.NodeSelector) > 0 {
		k.notes.add("pods with a nodeSelector", where)
	}
	if len(o.Spec.TopologySpreadConstraints) > 0 {
		k.notes.add("pods with topologySpreadConstraints", where)
	}
	if len(o.Spec.Containers) > 1 {
		k.notes.add("pods of more than one container, placed as one", where)
	}
}
