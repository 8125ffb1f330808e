package audit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/view"
)

// The test binary is the program of the containers: with AUDIT_TEST_THREADS it starts busy or sleeping threads, and
// runs until its input ends.
func init() {
	n, err := strconv.Atoi(os.Getenv("AUDIT_TEST_THREADS"))
	if err != nil {
		return
	}
	var started sync.WaitGroup
	started.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			started.Done()
			for os.Getenv("AUDIT_TEST_BUSY") != "" {
			}
			select {}
		}()
	}
	started.Wait()
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// start starts a program with at least the given number of threads.
func start(t *testing.T, threads int, busy string) (pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("AUDIT_TEST_THREADS=%d", threads), "AUDIT_TEST_BUSY="+busy)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// open opens a cgroup tree and removes it at the end of the test.
func open(t *testing.T, parent string) *cgroup.Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		names, _ := tree.Groups()
		for _, name := range names {
			if err := tree.Group(name).End(); err != nil {
				t.Error(err)
			}
		}
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// found returns the container of the cgroup at path, or nil if Read does not list it.
func found(t *testing.T, tree *cgroup.Tree, path string) *Container {
	t.Helper()
	all, err := Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c Container) bool { return c.Group == path })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// TestRead: the path of a cgroup shows whether it is a container of an engine or of Candor. The limit is the
// smallest quota of the cgroup and its ancestors.
func TestRead(t *testing.T) {
	base := fmt.Sprintf("/candor-audit-%d", os.Getpid())
	pod, candors := open(t, base), open(t, base+"-own")
	all, _, err := pod.Effective()
	if err != nil {
		t.Fatal(err)
	}
	single := all.Lowest(1)
	create := func(tree *cgroup.Tree, name string, s cgroup.Settings, pid int) {
		t.Helper()
		if err := tree.Group(name).Create(s, pid); err != nil {
			t.Fatal(err)
		}
	}
	second := "b" + id[1:]
	create(pod, id, cgroup.Settings{CPUs: all, Quota: 150 * time.Millisecond}, start(t, 12, ""))
	create(pod, second, cgroup.Settings{CPUs: single}, start(t, 1, ""))
	create(pod, "empty"+id[5:], cgroup.Settings{CPUs: all}, 0)
	create(pod, "plain", cgroup.Settings{CPUs: all}, start(t, 1, ""))
	create(candors, "web", cgroup.Settings{CPUs: single, Quota: 50 * time.Millisecond, Period: 50 * time.Millisecond}, start(t, 1, ""))

	c := found(t, candors, base+"/"+id)
	if c == nil || c.Limit != 1500 || c.Sees != all.Count() || c.CPUs != all || c.Threads < 13 || c.Processes != 1 ||
		c.LimitedBy != c.Group || c.Name != id[:12] || c.ID != id || c.Differs() != (all.Count() != 2) {
		t.Errorf("limit 1.5: %+v", c)
	}
	if c := found(t, candors, base+"/"+second); c == nil || c.Limit != 0 || c.Sees != 1 || c.CPUs != single || c.Differs() {
		t.Errorf("no limit: %+v", c)
	}
	if c := found(t, candors, base+"-own/web"); c == nil || c.Name != "web" || c.Runtime != "candor" || c.Limit != 1000 || c.Differs() {
		t.Errorf("container of Candor: %+v", c)
	}
	for _, path := range []string{base, base + "/plain", base + "/empty" + id[5:]} {
		if c := found(t, candors, path); c != nil {
			t.Errorf("got container %+v, want none", c)
		}
	}
}

// TestThrottled: a program with more threads than its quota allows is throttled and would gain. The quota is
// set on the parent cgroup.
func TestThrottled(t *testing.T) {
	base := fmt.Sprintf("/candor-audit-busy-%d", os.Getpid())
	pods := open(t, base)
	all, _, err := pods.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs: with a single CPU, limit and CPU count are equal")
	}
	limited := cgroup.Settings{CPUs: all, Quota: 5 * time.Millisecond, Period: 10 * time.Millisecond}
	if err := pods.Group("pod").Create(limited, 0); err != nil {
		t.Fatal(err)
	}
	inner := open(t, base+"/pod")
	if err := inner.Group(id).Create(cgroup.Settings{CPUs: all}, start(t, 4, "yes")); err != nil {
		t.Fatal(err)
	}
	elsewhere := open(t, base+"-none")
	c := found(t, elsewhere, base+"/pod/"+id)
	for end := time.Now().Add(time.Minute); c != nil && (c.Gain() != Likely || c.ThrottledTime == 0) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		c = found(t, elsewhere, base+"/pod/"+id)
	}
	if c == nil || c.Gain() != Likely || c.Limit != 500 || c.LimitedBy != base+"/pod" || c.ThrottledTime <= 0 || c.Share() < leastShare {
		t.Errorf("busy: %+v", c)
	}
}

// TestNested: the processes of a nested container do not count for the outer container.
func TestNested(t *testing.T) {
	base := fmt.Sprintf("/candor-audit-nested-%d", os.Getpid())
	outer := open(t, base)
	all, _, err := outer.Effective()
	if err != nil {
		t.Fatal(err)
	}
	settings := cgroup.Settings{CPUs: all}
	if err := outer.Group(id).Create(settings, 0); err != nil {
		t.Fatal(err)
	}
	inner := open(t, base+"/"+id)
	if err := inner.Group("init").Create(settings, start(t, 1, "")); err != nil {
		t.Fatal(err)
	}
	if err := inner.Group(id).Create(settings, start(t, 9, "")); err != nil {
		t.Fatal(err)
	}
	elsewhere := open(t, base+"-none")
	out, in := found(t, elsewhere, base+"/"+id), found(t, elsewhere, base+"/"+id+"/"+id)
	if out == nil || in == nil || out.Processes != 1 || in.Processes != 1 || in.Threads < 10 {
		t.Errorf("outer %+v, inner %+v", out, in)
	}
}

// TestMemory: the memory that a container sees is that of its view, or of the machine, or unknown.
func TestMemory(t *testing.T) {
	const mib = 1 << 20
	machine, err := view.ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	views := t.TempDir()
	files, err := view.OpenLive(filepath.Join(views, "web"), view.LiveParts{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := files.WriteMemory(cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 64 * mib}, Free: mib, Available: mib}, machine); err != nil {
		t.Fatal(err)
	}
	ofView := view.Observation{View: "web", Live: view.LiveParts{Memory: true}}
	for name, test := range map[string]struct {
		seen    view.Observation
		limit   int64
		want    Memory
		differs bool
	}{
		"the kernel's file":       {view.Observation{IsHostMeminfo: true}, 64 * mib, Memory{64 * mib, machine.Total, ""}, true},
		"no limit":                {view.Observation{IsHostMeminfo: true}, 0, Memory{0, machine.Total, ""}, false},
		"the machine's limit":     {view.Observation{IsHostMeminfo: true}, machine.Total, Memory{0, machine.Total, ""}, false},
		"a view":                  {ofView, 64 * mib, Memory{64 * mib, 64 * mib, ""}, false},
		"a view with other bytes": {ofView, 64*mib + 1023, Memory{64*mib + 1023, 64 * mib, ""}, false},
		"an old view":             {ofView, 32 * mib, Memory{32 * mib, 64 * mib, ""}, true},
		"a missing view":          {view.Observation{View: "db", Live: view.LiveParts{Memory: true}}, 64 * mib, Memory{64 * mib, 0, ""}, false},
		"LXCFS":                   {view.Observation{ForeignMeminfo: "fuse.lxcfs"}, 64 * mib, Memory{64 * mib, 0, "fuse.lxcfs"}, false},
		"a removed view":          {view.Observation{}, 64 * mib, Memory{64 * mib, 0, ""}, false},
	} {
		m := Memory{Limit: test.limit}
		m.see(&test.seen, views)
		if m != test.want || m.Differs() != test.differs {
			t.Errorf("%s: %+v, differs %t; want %+v", name, m, m.Differs(), test.want)
		}
	}
}
