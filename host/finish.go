package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/candor-project/candor/internal/errline"
)

// finish makes the node's grants true: groups, views, file. On an error all
// is as it was.
func (op *operation) finish() error {
	grants := op.grants()
	if op.planOnly {
		return op.note(grants)
	}
	op.fresh = op.freshOf(grants)
	op.lookAtOthers(grants)
	targets := op.targets(grants)
	before := op.present()
	if err := op.buryGroups(); err != nil {
		return err
	}
	err := op.prepareNewcomer(grants)
	if err == nil {
		err = op.settle(targets, op.exclusive(grants))
	}
	if err == nil {
		err = op.showViews(grants)
	}
	if err == nil {
		err = op.saveGrants(grants)
	}
	if err != nil {
		return errline.Join(err, op.undo(before, grants))
	}
	op.tellUnits(before)
	op.mendPods(grants)
	op.tidy()
	isThere := func(name string) bool { return op.info[name] != nil }
	op.Host.degraded.retain(func(name string) bool { return isThere(name) && op.groups[name] != nil })
	op.views.retain(isThere)
	op.report.Moves = op.moves(grants)
	op.sayDrift(before)
	return nil
}

// saveGrants writes the state file if it has to change.
func (op *operation) saveGrants(grants []*Grant) error {
	grants = slices.Clone(grants)
	for i, g := range grants {
		if !g.Lost.IsEmpty() {
			saved := *g
			saved.Grant = whole(g.Grant, op.info[g.ID].Grant)
			grants[i] = &saved
		}
	}
	next, isOther, err := op.saved.next(op.boot, grants)
	if err != nil || !isOther || len(grants) == 0 && len(op.saved.Grants) == 0 {
		return err
	}
	if err := op.store.save(next); err != nil {
		return err
	}
	op.saved = next
	return nil
}

// buryGroups removes the groups of what has ended.
func (op *operation) buryGroups() error {
	for _, name := range op.over {
		if op.groups[name] == nil {
			continue
		}
		if op.groups[name].isEngines() {
			delete(op.groups, name)
			continue
		}
		op.tellUsed(name)
		_, err := op.remove(name, op.groups[name].Remove)
		if err != nil && op.isSubject(name) {
			return fmt.Errorf("remove group of %s: %w", name, err)
		} else if err != nil {
			op.log.Warn("cannot remove the group of a container that has ended; the next operation tries again", "container", name, "error", err)
		}
		delete(op.groups, name)
	}
	return nil
}

// tellUsed tells who wants to know it what a container has used, while its group is there.
func (op *operation) tellUsed(name string) {
	if op.ended == nil {
		return
	}
	if used, err := op.tree.ReadUsage(name); err == nil {
		op.ended(name, used)
	}
}

// tidy removes files of containers that are no more. What cannot be removed
// now is removed by another operation.
func (op *operation) tidy() {
	if (op.about != about{}) && len(op.over) == 0 {
		return
	}
	for _, dir := range []string{"views", "requests", "commands"} {
		entries, _ := os.ReadDir(filepath.Join(op.store.dir, dir))
		for _, entry := range entries {
			if op.info[entry.Name()] != nil {
				continue
			}
			if err := op.store.forget(entry.Name()); err != nil {
				op.log.Warn("left over", "file", filepath.Join(op.store.dir, dir, entry.Name()), "error", err)
			}
		}
	}
}
