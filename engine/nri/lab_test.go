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

// A test binary is also what the containers of the tests run.
func init() {
	if os.Getenv("NRI_TEST_ROLE") == "wait" {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
}

// A lab is a plugin on a state of its own, and the groups that a runtime makes.
type lab struct {
	*testing.T
	*plugin
	host *host.Host
	dir  string
	base string       // group of the pods' groups
	pods *cgroup.Tree // one pod's
	log  *strings.Builder
	// hints are what became of those of the containers that were planned.
	hints []host.HintResult
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

// needTwo skips a test where containers cannot have two CPUs; else it returns what they can have.
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

// container is one as the runtime tells of it before it makes it.
func (l *lab) container(name, group string, quota int64) *api.Container {
	return &api.Container{Id: group, Name: name, Linux: &api.LinuxContainer{
		CgroupsPath: l.base + "/pod1/" + group,
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{
			Quota: api.Int64(quota), Period: api.UInt64(uint64(100000)), Shares: api.UInt64(uint64(quota * 1024 / 100000)),
		}},
	}}
}

// create does what the runtime does with the plugin's reply: it is what it tells of the container from now on.
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

// run makes the container's group as the runtime was told, and starts a program in it.
func (l *lab) run(c *api.Container) (stop func()) {
	l.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NRI_TEST_ROLE=wait")
	in, err := cmd.StdinPipe() // until it ends, so nothing outlives the test
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

// grant is what a container has; nil: none.
func (l *lab) grant(pod *api.PodSandbox, c *api.Container) *host.Grant {
	l.Helper()
	g, err := l.Engine.grant(grantName(podOf(pod), c.Name))
	if err != nil {
		l.Fatal(err)
	}
	return g
}
