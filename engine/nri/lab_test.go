package nri

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

// The test binary is the program of the containers: with NRI_TEST_ROLE=wait it runs until its input ends.
func init() {
	if os.Getenv("NRI_TEST_ROLE") == "wait" {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
}

// lab is a plugin with a private state directory, and the cgroups that a runtime creates.
type lab struct {
	*testing.T
	*plugin
	host  *host.Host
	dir   string
	base  string       // parent cgroup of the pods
	pods  *cgroup.Tree // cgroup of a pod
	log   *strings.Builder
	hints []host.HintResult // results for the planned containers that have a hint
}

var labs atomic.Int64

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	l := &lab{T: t, dir: t.TempDir(), log: new(strings.Builder)}
	l.base = fmt.Sprintf("/candor-nri-unit-%d-%d", os.Getpid(), labs.Add(1))
	l.pods = l.tree(l.base + "/pod1")
	log := slog.New(slog.NewTextHandler(l.log, nil))
	h, err := host.Open(host.Options{
		StateDir: filepath.Join(l.dir, "state"), Config: filepath.Join(l.dir, "host.json"), Log: log,
		Cgroup:      cgroup.Options{Parent: l.base + "-run", Driver: cgroup.Cgroupfs},
		OnOperation: l.noteHint,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.host, l.plugin = h, &plugin{NewEngine(h, DefaultConfig(), log), func() {}}
	t.Cleanup(l.clear)
	return l
}

func (l *lab) noteHint(r host.Report) {
	if r.Hint != host.NoHint {
		l.hints = append(l.hints, r.Hint)
	}
}

func (l *lab) tree(parent string) *cgroup.Tree {
	l.Helper()
	tree, err := cgroup.Open(cgroup.Options{Parent: parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		l.Fatal(err)
	}
	return tree
}

// needTwo returns the CPUs that containers can use. It skips the test if there are fewer than two.
func (l *lab) needTwo() cpuset.Set {
	l.Helper()
	all, _, err := l.pods.Effective()
	if err != nil {
		l.Fatal(err)
	}
	if all.Count() < 2 {
		l.Skipf("needs 2 CPUs, has %v", all)
	}
	return all
}

func (l *lab) clear() {
	l.recordAllStarts()
	names, _ := l.pods.Groups()
	for _, name := range names {
		if err := l.pods.Group(name).End(); err != nil {
			l.Error(err)
		}
	}
	for _, tree := range []*cgroup.Tree{l.pods, l.tree(l.base), l.tree(l.base + "-run")} {
		if err := tree.Remove(); err != nil {
			l.Error(err)
		}
	}
}

// container returns a container as the runtime describes it before its creation.
func (l *lab) container(name, group string, quota int64) *api.Container {
	return &api.Container{Id: group, Name: name, Linux: &api.LinuxContainer{
		CgroupsPath: l.base + "/pod1/" + group,
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{
			Quota: api.Int64(quota), Period: api.UInt64(uint64(100000)), Shares: api.UInt64(uint64(quota * 1024 / 100000)),
		}},
	}}
}

// create sends CreateContainer and applies the plugin's reply to c, as the runtime does.
func (l *lab) create(pod *api.PodSandbox, c *api.Container) {
	l.Helper()
	a, _, err := l.CreateContainer(context.Background(), pod, c)
	if err != nil {
		l.Fatal(err)
	}
	if a != nil {
		c.Linux.Resources.Cpu = a.Linux.Resources.Cpu
		c.Annotations = a.Annotations
	}
}

// run creates the container's cgroup with all CPUs and starts the test binary in it.
func (l *lab) run(c *api.Container) (stop func()) {
	l.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NRI_TEST_ROLE=wait")
	in, err := cmd.StdinPipe() // the program ends when its input closes, so it does not outlive the test
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.Fatal(err)
	}
	stop = func() { in.Close(); cmd.Wait() }
	l.Cleanup(stop)
	all, _, err := l.pods.Effective()
	if err == nil {
		err = l.pods.Group(c.Id).Create(cgroup.Settings{CPUs: all}, cmd.Process.Pid)
	}
	if err != nil {
		l.Fatal(err)
	}
	c.Pid, c.State = uint32(cmd.Process.Pid), api.ContainerState_CONTAINER_RUNNING
	return stop
}

// grant returns the grant of a container, or nil if the container has none.
func (l *lab) grant(pod *api.PodSandbox, c *api.Container) *host.Grant {
	l.Helper()
	g, err := l.Engine.grant(grantName(podOf(pod), c.Name))
	if err != nil {
		l.Fatal(err)
	}
	return g
}
