package cgroup

import (
	"path/filepath"
	"strings"
	"sync/atomic"
)

// On v1 the kernel looks through all groups for its scheduling domains whenever the CPUs of one change that asks for load to be
// balanced, as all do unless told otherwise: with 250 groups that is most of what the write costs. Where the root asks for it
// there is one domain, of all CPUs, and what a group asks for counts for nothing (cpusets.rst, 1.7). So the groups that are moved again
// and again stop asking, for as long as the root does.

const balanceFile = "cpuset.sched_load_balance"

// mayCalm is set where the root balances load.
var mayCalm atomic.Bool

// MindBalance looks whether the root balances load. If it does, the groups whose lists of CPUs are kept open stop asking for that as they
// are moved; if it does not, they ask again. It is for those that run on, to be called now and then; on v2 there is nothing to mind.
func (t *Tree) MindBalance() error {
	if t.cpuset.v2 {
		return nil
	}
	balances, err := readInt(t.cpuset.mount, balanceFile)
	if err != nil {
		return err
	}
	mayCalm.Store(balances == 1)
	if balances == 1 {
		return nil
	}
	for _, dir := range keptGroups() {
		if asks, err := readInt(dir, balanceFile); err == nil && asks == 0 {
			if err := writeInt(dir, balanceFile, 1); err != nil && !gone(err) {
				return err
			}
		}
	}
	return nil
}

// calm has a group stop asking for its load to be balanced. Where it does not, its moves take longer: nothing else.
func calm(cpus string) { _ = writeInt(filepath.Dir(cpus), balanceFile, 0) }

// keptGroups are the folders of the groups whose lists of CPUs are kept open. They are not calm any more.
func keptGroups() (dirs []string) {
	kept.Lock()
	defer kept.Unlock()
	for path, f := range kept.files {
		if dir, ok := strings.CutSuffix(path, "/"+cpusFile); ok {
			dirs = append(dirs, dir)
			f.isCalm.Store(false)
		}
	}
	return dirs
}
