package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of Candor's custom resources.
var GroupVersion = schema.GroupVersion{Group: "candor.dev", Version: "v1alpha1"}

// Names of the resources in paths of the API.
const (
	NodeCPUs    = "nodecpus"
	CPUProfiles = "cpuprofiles"
)

// AddToScheme registers Candor's custom resources in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeCPU{}, &NodeCPUList{}, &CPUProfile{}, &CPUProfileList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
