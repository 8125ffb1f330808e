package host

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A podNote stands at a pod's group: what the kubelet has given it, and the weight that Candor gave it
// since. What differs from the weight, and from a lifted quota, is news from the kubelet.
type podNote struct {
	quota        time.Duration // per the group's period; 0: none
	weight, ours int64
}

func (n podNote) String() string {
	return fmt.Sprintf("quota %d weight %d candor's %d", n.quota.Microseconds(), n.weight, n.ours)
}

// readPodNote returns the zero note where there is none, or one that no Candor has written.
func readPodNote(group *cgroup.Group) (podNote, error) {
	text, err := group.Note()
	return parsePodNote(text), err
}

func parsePodNote(text string) (n podNote) {
	var micros int64
	_, _ = fmt.Sscanf(text, "quota %d weight %d candor's %d", &micros, &n.weight, &n.ours) // what it cannot read, String does not write
	n.quota = time.Duration(micros) * time.Microsecond
	if n.String() != text || n.quota < 0 || n.weight < 0 || n.ours < 0 {
		return podNote{}
	}
	return n
}

// kubelets is what the kubelet wants a group to have: what it has, so far as that is not Candor's. A quota
// that was lifted is to grow by so much.
func (n podNote) kubelets(has cgroup.CPUTime, lifted, grown time.Duration) cgroup.CPUTime {
	if n.quota != 0 && has.Quota == lifted {
		has.Quota = n.quota + grown
	}
	if n.weighs(has) {
		has.Weight = n.weight
	}
	return has
}

// weighs reports whether a group's weight is Candor's.
func (n podNote) weighs(has cgroup.CPUTime) bool { return n.ours != n.weight && has.Weight == n.ours }

// replace writes another note at a group that has what it has. Candor's weight goes first: beside the other note
// it would be taken for the kubelet's, if that were the last thing that is done.
func (n podNote) replace(next podNote, group *cgroup.Group, has cgroup.CPUTime) error {
	if n.weighs(has) && next.ours != has.Weight {
		has.Weight = n.weight
		if err := group.SetCPUTime(has); err != nil {
			return err
		}
	}
	return group.SetNote(next.String())
}
