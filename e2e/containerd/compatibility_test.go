package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/e2e/compatibility"
	"github.com/candor-project/candor/hybrid"
)

// TestCompatibility measures a cell of docs/compatibility.md with candor nri: make matrix.
func TestCompatibility(t *testing.T) {
	cell := compatibility.Selected(t)
	compatibility.Step(t, compatibility.Start)
	switch cell.Engine.Name {
	case "containerd-1.6":
		measureWithoutNRI(t, cell.Engine)
	case "containerd-1.7":
		underTest = containerd17
	case "cri-o-1.34":
		underTest = crio
	}
	t.Cleanup(func() { underTest = containerd })
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Getenv("CANDOR_IN_GUEST") != "" {
		measureSystemd(t, cell.Engine)
		return
	}
	l := newLab(t)
	l.recordVersions(cell.Engine, false)
	c := newCensus(l)
	if c.node.usable.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	measureSteps(t, &compatPods{
		census: c,
		start: func(name string, milli hybrid.Milli, isSensitive bool) *container {
			var annotations map[string]string
			if isSensitive {
				annotations = sensitivePod
			}
			p := must[*pod](t)(l.newPod(milli, milli, annotations))
			ctr := must[*container](t)(p.run(name, milli, milli, isSensitive))
			c.begin(ctr)
			return ctr
		},
		resize:  func(ctr *container, milli hybrid.Milli) error { return ctr.resize(milli) },
		restart: func() { l.plugin.kill(); l.startPlugin() },
	})
}

// measureSystemd measures the cell of a guest in which systemd creates the groups.
func measureSystemd(t *testing.T, e compatibility.Engine) {
	b := newBooted(t)
	b.recordVersions(e, true)
	measureSteps(t, &compatPods{
		census: b.census,
		start: func(name string, milli hybrid.Milli, isSensitive bool) *container {
			qos := map[bool]string{false: "burstable-", true: ""}[isSensitive]
			return b.start(name, qos, milli, milli, isSensitive)
		},
		resize: func(ctr *container, milli hybrid.Milli) error {
			b.resize(ctr, milli)
			return nil
		},
		restart: func() { b.plugin.kill(); b.restart() },
	})
}

// compatPods are the operations of the scenario.
type compatPods struct {
	*census
	start   func(name string, milli hybrid.Milli, isSensitive bool) *container // in a new pod
	resize  func(ctr *container, milli hybrid.Milli) error
	restart func() // kills candor nri and starts it again
}

// measureSteps runs the scenario of docs/compatibility.md.
func measureSteps(t *testing.T, c *compatPods) {
	t.Helper()
	compatibility.Step(t, compatibility.Sensitive)
	web := c.start("web", 1500, true)
	c.holds(web)
	compatibility.Step(t, compatibility.Flexible)
	log := c.start("log", 300, false)
	c.holds(web)
	compatibility.Step(t, compatibility.Resize)
	for _, step := range []struct {
		ctr   *container
		milli hybrid.Milli
	}{{web, 1000}, {log, 200}, {web, 1500}} {
		if err := c.resize(step.ctr, step.milli); err != nil {
			t.Fatal(err)
		}
		c.holds(web)
	}
	compatibility.Step(t, compatibility.Killed)
	had := c.has()
	c.restart()
	c.unmoved(had)
	c.holds(web)
	compatibility.Step(t, compatibility.End)
	for _, ctr := range []*container{web, log} {
		c.end(ctr)
		if err := ctr.pod.remove(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.state.Snapshot()
	if err != nil || len(s.Grants) > 0 {
		t.Fatalf("after the end, the state has %+v, %v", s, err)
	}
}

// holds ends the test unless the invariants hold, and a sensitive container sees its CPUs.
func (c *compatPods) holds(sensitive *container) {
	c.Helper()
	c.check()
	sensitive.sees()
	if c.Failed() {
		c.FailNow()
	}
}

// recordVersions records the versions of the runtime, of runc and of the kernel. isSystemd reports whether systemd creates the cgroups.
func (l *lab) recordVersions(e compatibility.Engine, isSystemd bool) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v, err := l.cri.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		l.Fatal(err)
	}
	e.CheckVersion(l.T, v.RuntimeVersion)
	out, err := exec.Command("runc", "--version").Output()
	if err != nil {
		l.Fatal(err)
	}
	runc, _, _ := strings.Cut(string(out), "\n")
	compatibility.RecordVersions(l.T, compatibility.Kernel(l.T, l.allPods().Version(), isSystemd), l.name+" "+v.RuntimeVersion, runc)
}

// containerd17 is containerd 1.7, which scripts/engines.sh builds. NRI is off by default.
var containerd17 = criRuntime{"containerd", findContainerd17, configureContainerd17, containerdCommand, loadByCtr, "", false}

func findContainerd17(l *lab) {
	l.Helper()
	l.bin = os.Getenv("CANDOR_CONTAINERD_1_7")
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		if _, err := os.Stat(filepath.Join(l.bin, program)); err != nil {
			l.Skip("optional: no containerd 1.7: scripts/engines.sh builds it")
		}
	}
}

// containerd1Config is a configuration of containerd 1.6 and 1.7.
const containerd1Config = `version = 2
root  = "DIR/root"
state = "DIR/state"

[grpc]
  address = "DIR/containerd.sock"
[ttrpc]
  address = "DIR/containerd.sock.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "lab.local/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "DIR/cni"
    conf_dir = "DIR/cni"
`

const containerd17NRI = `
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "DIR/nri.sock"
  plugin_path = "DIR/nri-plugins"
  plugin_config_path = "DIR/nri-conf.d"
`

func configureContainerd17(l *lab, _ []string) {
	l.Helper()
	l.write("containerd.toml", strings.ReplaceAll(containerd1Config+containerd17NRI, "DIR", l.dir))
}

// measureWithoutNRI starts Debian's containerd, which has no NRI. The answer of the cell is the finding of candor doctor.
func measureWithoutNRI(t *testing.T, e compatibility.Engine) {
	path, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip(err)
	}
	l := &lab{T: t, criRuntime: containerd, parent: fmt.Sprintf("/candor-nri-test-%d-old", os.Getpid())}
	l.findPrograms()
	if l.dir, err = os.MkdirTemp("", "candor-nri-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(l.dir) })
	l.bin = filepath.Dir(path)
	l.write("containerd.toml", strings.ReplaceAll(containerd1Config, "DIR", l.dir))
	l.connect()
	l.startEngine()
	t.Cleanup(func() {
		l.conn.Close()
		l.engine.kill()
		l.unmount()
	})
	l.recordVersions(e, false)
	_, status, found := l.doctored("runtime-version")
	if status != "failed" || !strings.Contains(found, "has no NRI") {
		t.Fatalf("candor doctor: %s: %s", status, found)
	}
	compatibility.Unsupported(t, "candor doctor: %s", found)
}
