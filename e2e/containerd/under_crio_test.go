package containerd

import (
	"os/exec"
	"strings"
	"testing"
)

var crio = criRuntime{"CRI-O", findCrio, configureCrio, crioCommand, loadByPodman, "crio-", true, "conmon", false}

func findCrio(l *lab) {
	l.Helper()
	for _, program := range []string{"crio", "pinns", "conmon", "podman"} {
		if _, err := exec.LookPath(program); err != nil {
			l.Skipf("optional: %v: make test-engines builds CRI-O and runs this", err)
		}
	}
}

const crioConfig = `[crio]
root = "DIR/root"
runroot = "DIR/run"
storage_driver = "vfs"
log_dir = "DIR/logs"
version_file = "DIR/version"
version_file_persist = "DIR/version-persist"
clean_shutdown_file = "DIR/clean"
[crio.api]
listen = "DIR/containerd.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
default_runtime = "runc"
apparmor_profile = "unconfined"
hooks_dir = []
container_exits_dir = "DIR/exits"
container_attach_socket_dir = "DIR/attach"
namespaces_dir = "DIR/ns"
pinns_path = "PINNS"
[crio.runtime.runtimes.runc]
runtime_path = "RUNC"
runtime_root = "DIR/runc"
monitor_path = "CONMON"
monitor_cgroup = "pod"
[crio.image]
pause_image = "lab.local/pause:1"
[crio.network]
network_dir = "DIR/cni"
plugin_dirs = ["DIR/cni"]
[crio.nri]
enable_nri = true
nri_listen = "DIR/nri.sock"
nri_plugin_dir = "DIR/nri-plugins"
nri_plugin_config_dir = "DIR/nri-conf.d"
`

func configureCrio(l *lab, more []string) {
	l.Helper()
	words := []string{"DIR", l.dir}
	for _, program := range []string{"pinns", "runc", "conmon"} {
		path, err := exec.LookPath(program)
		if err != nil {
			l.Fatal(err)
		}
		words = append(words, strings.ToUpper(program), path)
	}
	l.write("crio.conf", strings.NewReplacer(words...).Replace(crioConfig)+strings.Join(more, "\n"))
}

func crioCommand(l *lab) (program string, args []string) {
	return "crio", []string{"--config", l.path("crio.conf"), "--config-dir", ""}
}

// loadByPodman loads an image without a registry, because Podman and CRI-O share their storage.
func loadByPodman(l *lab, name string) {
	l.Helper()
	out, err := exec.Command("podman", "--root", l.path("root"), "--runroot", l.path("run"), "--storage-driver", "vfs",
		"--tmpdir", l.path("podman"), "--cgroup-manager", "cgroupfs", "--events-backend", "none",
		"load", "--input", l.path("image.tar")).CombinedOutput()
	if err != nil {
		l.Fatalf("load %s: %v\n%s", name, err, out)
	}
}

// TestCrio: candor nri behaves under CRI-O as under containerd.
func TestCrio(t *testing.T) {
	findCrio(&lab{T: t})
	underTest = crio
	t.Cleanup(func() { underTest = containerd })
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"ContainerLifecycle", TestContainerLifecycle}, {"Resize", TestResize}, {"Refusals", TestRefusals}, {"Preserve", TestPreserve}, {"OnResize", TestOnResize},
		{"KubeletUpdates", TestKubeletUpdates}, {"OverwrittenFiles", TestOverwrittenFiles}, {"PodGroup", TestPodGroup},
		{"WithoutPlugin", TestWithoutPlugin}, {"Reload", TestReload}, {"Restarts", testRestarts}, {"ForeignUpdateReverted", TestForeignUpdateReverted}, {"Metrics", TestMetrics}, {"Audit", TestAudit},
		{"RandomPods", TestRandomPods},
		{"Charge", TestCharge}, {"ChargeAgentKilled", TestChargeAgentKilled}, {"ChargeRestarts", TestChargeRestarts},
		{"ChargeLosesNoLine", TestChargeLosesNoLine}, {"ChargeMany", TestChargeMany},
	} {
		t.Run(test.name, test.run)
	}
}

// testRestarts: if CRI-O, the plugin or both are killed while no operation runs, they find the containers
// again after their restart. (A container that CRI-O was creating when it was killed is lost to it; the
// kubelet then kills the processes in the pod's group.)
func testRestarts(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	had := c.beginTwo()
	for _, cut := range []struct{ plugin, engine bool }{{true, false}, {false, true}, {true, true}} {
		l.cut(cut.plugin, cut.engine)
		c.check()
		c.unmoved(had)
	}
	for ctr := range had {
		ctr.sees()
		if err := ctr.resize(ctr.limit / 2); err != nil {
			t.Error(err)
		}
		ctr.sees()
	}
	c.check()
}
