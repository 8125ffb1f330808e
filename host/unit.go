package host

import "github.com/candor-project/candor/cgroup"

// tellUnits lets systemd know what containers have been given whose groups it has made for their engine: else its
// next reload would give them what they had. It comes after the state, which says what they are to have. What systemd did not
// take is found by the repair that follows a reload.
func (op *operation) tellUnits(before []target) {
	var all []cgroup.Given
	for _, had := range before {
		k := op.groups[had.name]
		if k != nil && k.isEngines() && k.settings != had.settings {
			all = append(all, cgroup.Given{Group: k.Group, Before: had.settings, After: k.settings})
		}
	}
	if err := op.tree.Tell(all); err != nil {
		op.log.Warn("systemd was not told what containers have: its next reload undoes that until the repair after it", "error", err)
	}
}
