package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
)

// Fingerprint returns a hash of a set of pods: 16 hexadecimal digits. pods are their UIDs. Order, repetitions and empty UIDs do not change
// the result.
func Fingerprint(pods []string) string {
	set := make(map[string]struct{}, len(pods))
	for _, pod := range pods {
		set[pod] = struct{}{}
	}
	delete(set, "")
	hash := sha256.New()
	for _, pod := range slices.Sorted(maps.Keys(set)) {
		_, _ = io.WriteString(hash, pod+"\n") // writing to a hash cannot fail
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// Pods returns the pod UID of each grant, with repetitions, and "" for containers outside of Kubernetes.
func (s *NodeCPUStatus) Pods() []string {
	pods := make([]string, 0, len(s.Grants))
	for i := range s.Grants {
		pods = append(pods, s.Grants[i].Pod)
	}
	return pods
}
