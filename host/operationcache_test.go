package host

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
)

// TestOperationCache: two processes change a state in turns. If the next operation can use the cached result
// of an operation, the cached node equals the node of a new process.
func TestOperationCache(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	begun := 0
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(l.TempDir(), "plan")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "state")
		hosts := []*Host{l.planOnlyHost(file), l.planOnlyHost(file)}
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			h := hosts[rapid.IntRange(0, 1).Draw(t, "process")]
			what := drawChange(t, h)
			left := h.cache.Load()
			if left == nil || left.node == nil || !canUseCache(t, h, left) {
				continue
			}
			begun++
			fresh := freshOperation(t, l.planOnlyHostWith(file))
			if has, want := left.node.Grants(), fresh.node.Grants(); !reflect.DeepEqual(has, want) {
				t.Fatalf("%s: left\n%+v\nfound\n%+v", what, has, want)
			}
			if !reflect.DeepEqual(left.info, fresh.info) {
				t.Fatalf("%s: known of the grants\n%v\nfound\n%v", what, left.info, fresh.info)
			}
		}
	})
	if may := cpusetKeepsAffinity(); may != (begun > 0) { // before Linux 6.2 none may
		t.Errorf("%d operations began with what the one before had left; may they: %v", begun, may)
	}
}

// drawChange runs a random operation and describes it. The operation may be refused.
func drawChange(t *rapid.T, h *Host) (what string) {
	name := rapid.SampledFrom([]string{"web", "db", "log", "job"}).Draw(t, "name")
	pod := "pod-of-" + name
	limit := hybrid.Milli(100 * rapid.IntRange(1, 12).Draw(t, "limit"))
	what = rapid.SampledFrom([]string{"admit", "admit", "admit", "resize", "stop", "end", "reserve"}).Draw(t, "change")
	var err error
	switch what {
	case "admit":
		a := ask(name, limit.String())
		a.Class = hybrid.Class(rapid.IntRange(0, 1).Draw(t, "class"))
		a.Engine = Engine{Cgroup: "/candor-nowhere/" + pod + "/" + name, Pod: pod, Sandbox: "box", Name: name}
		a.Deadline = time.Hour
		_, err = h.Admit(ctx, a, 0)
	case "resize":
		_, _, err = h.Resize(ctx, name, limit, 0)
	case "stop":
		err = h.Stopped(ctx, name, "/candor-nowhere/"+pod+"/"+name)
	case "end":
		err = h.EndSandbox(ctx, pod, "box")
	case "reserve":
		all, _, _, _ := h.usable()
		err = h.SetOptions(NodeOptions{Reserved: all.Lowest(rapid.IntRange(0, all.Count()-1).Draw(t, "reserved"))})
	}
	return fmt.Sprintf("%s %s %v: %v", what, name, limit, err)
}

// canUseCache reports whether the next operation can use the cached result.
func canUseCache(t *rapid.T, h *Host, left *operationCache) bool {
	saved, err := h.store.Load()
	if err != nil {
		t.Fatal(err)
	}
	now, err := h.basis()
	if err != nil {
		t.Fatal(err)
	}
	return left.isValid(&operation{saved: saved}, now)
}

// freshOperation returns an operation of a new process, which has restored the grants to its node.
func freshOperation(t *rapid.T, h *Host) *operation {
	boot, err := procfs.BootID()
	op := &operation{Host: h, boot: boot}
	if err == nil {
		err = op.load()
	}
	if err == nil {
		err = op.restore()
	}
	if err != nil {
		t.Fatal(err)
	}
	return op
}
