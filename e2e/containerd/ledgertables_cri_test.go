package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/e2e/ledgertables"
	"github.com/candor-project/candor/hybrid"
)

// A criEngine is containerd with candor nri and an agent that charges containers. Threads of containerd copy the output of all containers.
type criEngine struct {
	*lab
	group string // of containerd and its shims
}

func newCRIEngine(t *testing.T, cpu int) *criEngine {
	t.Helper()
	group := newEngineGroup(t)
	e := &criEngine{newEngine(t), group}
	e.importImage(ledgerImage, ledgerFiles(t))
	e.write("nri.yaml", "version: 1\nrepairEvery: 10s\nnode: {reserved: \"0\", minShared: 10m}\n")
	e.startPlugin()
	moveProcess(t, e.engine.Process.Pid, group)
	pinProcess(t, e.engine.Process.Pid, cpu)
	pinProcess(t, e.plugin.Process.Pid, 0)
	agent := e.startCharging("19475")
	pinProcess(t, agent.Process.Pid, 0)
	return e
}

func (e *criEngine) engineGroup() string { return e.group }

func (e *criEngine) source(method ledgertables.Method, quota time.Duration, script string) *ledgerSource {
	e.Helper()
	annotations := map[string]string{}
	if method == ledgertables.Charge {
		annotations["candor.dev/helpers"] = "charge"
	}
	p := must[*pod](e.T)(e.newPod(0, 0, annotations))
	p.image = ledgerImage
	writeKernelFile(e.T, filepath.Join("/sys/fs/cgroup/cpu", e.parent, "cpu.shares"), "1024") // as the engine's group
	name := fmt.Sprintf("c%d", podNumber.Load())
	p.config.LogDirectory = filepath.Join(e.path("logs"), fmt.Sprintf("default_%s_%s", p.name, p.config.Metadata.Uid), name)
	if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
		e.Fatal(err)
	}
	limit := hybrid.Milli(1000 * quota / ledgertables.Period)
	c := must[*container](e.T)(p.run(name, limit, 100, false, "sh", "-c", script))
	return &ledgerSource{
		parent: e.parent,
		group:  filepath.Join(e.parent, p.name, e.prefix+c.id),
		log:    filepath.Join(p.config.LogDirectory, name+".log"),
		end:    func() { e.end(c) },
	}
}

// end stops a container and removes its pod and log.
func (e *criEngine) end(c *container) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.stop()
	if err == nil {
		_, err = e.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: c.pod.id})
	}
	if err == nil {
		_, err = e.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: c.pod.id})
	}
	if err != nil {
		e.Fatal(err)
	}
	_ = os.RemoveAll(c.config.LogDirectory) // the next cell needs the space
}
