package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
)

// Fingerprint is a short hash of a set of pods by their UIDs: 16 hexadecimal digits, independent of the order and of repetitions. It ignores the
// empty UID.
func Fingerprint(pods []string) string {
	set := make(map[string]struct{}, len(pods))
	for _, pod := range pods {
		set[pod] = struct{}{}
	}
	delete(set, "")
	hash := sha256.New()
	for _, pod := range slices.Sorted(maps.Keys(set)) {
		_, _ = io.WriteString(hash, pod+"\n") // a hash takes all
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// Pods returns the UIDs of the pods that have grants, as often as they have.
func (s *NodeCPUStatus) Pods() []string {
	pods := make([]string, 0, len(s.Grants))
	for i := range s.Grants {
		pods = append(pods, s.Grants[i].Pod)
	}
	return pods
}
