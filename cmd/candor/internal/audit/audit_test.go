package audit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// The containers of the tests run the test binary, with a number of busy or sleeping threads, until its input ends.
func init() {
	n, err := strconv.Atoi(os.Getenv("AUDIT_TEST_THREADS"))
	if err != nil {
		return
	}
	var begun sync.WaitGroup
	begun.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			begun.Done()
			for os.Getenv("AUDIT_TEST_BUSY") != "" {
			}
			select {}
		}()
	}
	begun.Wait()
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// start starts a program with at least so many threads.
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

// open opens groups of the test's own, which are removed after it.
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

// found is the container of that group; nil if it is not listed.
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

// TestRead: the path of a group determines whether it belongs to an engine's container, to Candor's container or to
// none. The smallest quota of the group and the groups above limits it.
func TestRead(t *testing.T) {
	base := fmt.Sprintf("/candor-audit-%d", os.Getpid())
	pod, own := open(t, base), open(t, base+"-own")
	all, _, err := pod.Effective()
	if err != nil {
		t.Fatal(err)
	}
	one := all.Lowest(1)
	create := func(tree *cgroup.Tree, name string, s cgroup.Settings, pid int) {
		t.Helper()
		if err := tree.Group(name).Create(s, pid); err != nil {
			t.Fatal(err)
		}
	}
	second := "b" + id[1:]
	create(pod, id, cgroup.Settings{CPUs: all, Quota: 150 * time.Millisecond}, start(t, 12, ""))
	create(pod, second, cgroup.Settings{CPUs: one}, start(t, 1, ""))
	create(pod, "empty"+id[5:], cgroup.Settings{CPUs: all}, 0)
	create(pod, "plain", cgroup.Settings{CPUs: all}, start(t, 1, ""))
	create(own, "web", cgroup.Settings{CPUs: one, Quota: 50 * time.Millisecond, Period: 50 * time.Millisecond}, start(t, 1, ""))

	c := found(t, own, base+"/"+id)
	if c == nil || c.Limit != 1500 || c.Sees != all.Count() || c.CPUs != all || c.Threads < 13 || c.Processes != 1 ||
		c.LimitedBy != c.Group || c.Name != id[:12] || c.ID != id || c.Differs() != (all.Count() != 2) {
		t.Errorf("limit 1.5: %+v", c)
	}
	if c := found(t, own, base+"/"+second); c == nil || c.Limit != 0 || c.Sees != 1 || c.CPUs != one || c.Differs() {
		t.Errorf("no limit: %+v", c)
	}
	if c := found(t, own, base+"-own/web"); c == nil || c.Name != "web" || c.Runtime != "candor" || c.Limit != 1000 || c.Differs() {
		t.Errorf("Candor's: %+v", c)
	}
	for _, path := range []string{base, base + "/plain", base + "/empty" + id[5:]} {
		if c := found(t, own, path); c != nil {
			t.Errorf("no container with a process: %+v", c)
		}
	}
}

// TestThrottled: a program with more threads than CPUs in its quota is throttled, and gains. The quota can belong to a
// group above.
func TestThrottled(t *testing.T) {
	base := fmt.Sprintf("/candor-audit-busy-%d", os.Getpid())
	pods := open(t, base)
	all, _, err := pods.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs: with one it sees what it has")
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

// TestNested: the processes of a nested container do not count for the container around it.
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
