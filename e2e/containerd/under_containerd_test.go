package containerd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var containerd = criRuntime{"containerd", findContainerd, configureContainerd, containerdCommand, loadByCtr, "", false, "containerd-shim", true}

func findContainerd(l *lab) {
	l.Helper()
	if l.bin = os.Getenv("CANDOR_CONTAINERD"); l.bin == "" {
		l.bin = filepath.Join(testCache(), "containerd")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		if _, err := os.Stat(filepath.Join(l.bin, program)); err != nil {
			l.Skipf("no %s: make test-deps builds it (or name its folder by $CANDOR_CONTAINERD)", program)
		}
	}
}

const containerdConfig = `version = 3
root  = "DIR/root"
state = "DIR/state"

[grpc]
  address = "DIR/containerd.sock"
[ttrpc]
  address = "DIR/containerd.sock.ttrpc"

[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = "DIR/nri.sock"
  plugin_path = "DIR/nri-plugins"
  plugin_config_path = "DIR/nri-conf.d"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "native"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "lab.local/pause:1"

[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["DIR/cni"]
    conf_dir = "DIR/cni"
`

func configureContainerd(l *lab, more []string) {
	l.Helper()
	l.write("containerd.toml", strings.ReplaceAll(containerdConfig, "DIR", l.dir)+strings.Join(more, "\n"))
}

func containerdCommand(l *lab) (program string, args []string) {
	return filepath.Join(l.bin, "containerd"), []string{"--config", l.path("containerd.toml")}
}

func loadByCtr(l *lab, name string) {
	l.Helper()
	out, err := exec.Command(filepath.Join(l.bin, "ctr"), "--address", l.path("containerd.sock"),
		"--namespace", "k8s.io", "images", "import", "--local", "--snapshotter", "native", l.path("image.tar")).CombinedOutput()
	if err != nil {
		l.Fatalf("import %s: %v\n%s", name, err, out)
	}
}
