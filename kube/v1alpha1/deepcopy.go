package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Deep copies, which client libraries require.

func (n *NodeCPU) DeepCopyObject() runtime.Object        { return n.DeepCopy() }
func (l *NodeCPUList) DeepCopyObject() runtime.Object    { return l.DeepCopy() }
func (p *CPUProfile) DeepCopyObject() runtime.Object     { return p.DeepCopy() }
func (l *CPUProfileList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy; nil of nil.
func (n *NodeCPU) DeepCopy() *NodeCPU {
	if n == nil {
		return nil
	}
	c := *n
	n.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status = *n.Status.DeepCopy()
	return &c
}

// DeepCopy returns a copy; nil of nil.
func (s *NodeCPUStatus) DeepCopy() *NodeCPUStatus {
	if s == nil {
		return nil
	}
	c := *s
	c.Reported = *s.Reported.DeepCopy()
	c.Grants = slices.Clone(s.Grants)
	c.Machine.NUMANodes = slices.Clone(s.Machine.NUMANodes)
	for i := range c.Machine.NUMANodes {
		n := &c.Machine.NUMANodes[i]
		n.Distances = slices.Clone(n.Distances)
	}
	return &c
}

// DeepCopy returns a copy; nil of nil.
func (p *CPUProfile) DeepCopy() *CPUProfile {
	if p == nil {
		return nil
	}
	c := *p
	p.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Selector = p.Spec.Selector.DeepCopy()
	c.Spec.Images = slices.Clone(p.Spec.Images)
	return &c
}

// DeepCopy returns a copy; nil of nil.
func (l *NodeCPUList) DeepCopy() *NodeCPUList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = copies(l.Items, (*NodeCPU).DeepCopy)
	return &c
}

// DeepCopy returns a copy; nil of nil.
func (l *CPUProfileList) DeepCopy() *CPUProfileList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = copies(l.Items, (*CPUProfile).DeepCopy)
	return &c
}

func copies[T any](items []T, deep func(*T) *T) []T {
	if items == nil {
		return nil
	}
	c := make([]T, len(items))
	for i := range items {
		c[i] = *deep(&items[i])
	}
	return c
}
