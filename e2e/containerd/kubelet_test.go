package containerd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/hybrid"
)

// A kubelet is a real kubelet without an API server. Its pods are manifests in a directory.
type kubelet struct {
	*census
	daemon *daemon
}

// newKubelet starts a lab and a kubelet, with additional lines of the kubelet's configuration.
func newKubelet(t *testing.T, more string) *kubelet {
	t.Helper()
	needKubelet(t)
	return startKubelet(newLab(t), more)
}

func needKubelet(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_KUBELET") == "" {
		t.Skip("no CANDOR_KUBELET: make test-kubelet builds one and runs this")
	}
}

// startKubelet starts a kubelet in a lab, with additional flags.
func startKubelet(l *lab, more string, flags ...string) *kubelet {
	l.Helper()
	k := &kubelet{census: newCensus(l)}
	k.restoreLater()
	k.makeTop()
	if err := os.Mkdir(l.path("manifests"), 0o755); err != nil {
		l.Fatal(err)
	}
	address := "127.0.0.1"
	if i := slices.Index(flags, "--node-ip"); i >= 0 {
		address = flags[i+1]
	}
	l.write("kubelet.yaml", strings.NewReplacer("DIR", l.dir, "PARENT", l.parent, "ADDRESS", address).Replace(kubeletConfig)+more)
	flags = append(flags, "--config", l.path("kubelet.yaml"), "--root-dir", l.path("kubelet"), "--cert-dir", l.path("pki"), "--hostname-override", "node")
	k.daemon = l.start(os.Getenv("CANDOR_KUBELET"), flags...)
	l.Cleanup(func() {
		k.daemon.kill()
		if l.Failed() {
			l.Logf("log of the kubelet:\n%s", last(k.daemon.output(), 8000))
		}
	})
	return k
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: PARENT
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://DIR/containerd.sock
staticPodPath: DIR/manifests
podLogsDir: DIR/logs
volumePluginDir: DIR/volumes
address: ADDRESS
port: 11250
readOnlyPort: 0
healthzPort: 0
failSwapOn: false
oomScoreAdj: 0
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
fileCheckFrequency: 1s
syncFrequency: 1s
`

// makeTop creates the parent of the kubelet's group in every hierarchy, because the kubelet requires it.
func (k *kubelet) makeTop() {
	k.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return // one hierarchy, where the lab's is made with the first pod
	}
	tops, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		k.Fatal(err)
	}
	for _, top := range tops {
		if err := os.Mkdir(top+k.parent, 0o755); err != nil && !os.IsExist(err) {
			k.Fatal(err)
		}
		for _, file := range []string{"/cpuset.cpus", "/cpuset.mems"} {
			if all, err := os.ReadFile(top + file); err == nil {
				if err := os.WriteFile(top+k.parent+file, all, 0); err != nil {
					k.Fatal(err)
				}
			}
		}
	}
}

// restoreLater restores the machine-wide settings that a kubelet changes, after the test. The lab removes the
// kubelet's mounts.
func (k *kubelet) restoreLater() {
	k.Helper()
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		file := "/proc/sys/" + name
		if before, err := os.ReadFile(file); err == nil {
			k.Cleanup(func() { os.WriteFile(file, before, 0) })
		}
	}
	_, err := os.Stat("/var/log/containers")
	k.Cleanup(func() {
		links, _ := filepath.Glob("/var/log/containers/*")
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, k.dir) {
				os.Remove(link)
			}
		}
		if err != nil {
			os.Remove("/var/log/containers")
		}
	})
}

// manifest writes or replaces the manifest of a static pod with a container.
func (k *kubelet) manifest(name string, limit hybrid.Milli, annotations map[string]string) {
	k.Helper()
	amounts := map[string]any{}
	if limit != 0 {
		both := map[string]string{"cpu": limit.String(), "memory": "64Mi"}
		amounts = map[string]any{"limits": both, "requests": both}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "default", "annotations": annotations},
		"spec": map[string]any{
			"hostNetwork": true, "terminationGracePeriodSeconds": 0,
			"containers": []any{map[string]any{"name": "app", "image": busybox, "imagePullPolicy": "Never", "resources": amounts}},
		},
	})
	if err != nil {
		k.Fatal(err)
	}
	k.write("manifests/"+name+".json", string(text))
}

// running waits until the kubelet runs the container app of a pod and Candor has planned it with a limit. It
// returns the container, which must differ from the container before.
func (k *kubelet) running(name string, limit hybrid.Milli, before string) (id string, f fact) {
	k.Helper()
	k.wait("the kubelet's "+name, k.daemon, func() bool {
		r, err := k.cri.ListContainers(context.Background(), &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.container.name": "app"},
		}})
		if err != nil || len(r.Containers) != 1 || r.Containers[0].Id == before {
			return false
		}
		id = r.Containers[0].Id
		s, err := k.state.Snapshot()
		if err != nil {
			return false
		}
		for _, g := range s.Grants {
			if g.Engine.Name != "default/"+name+"/app" || filepath.Base(g.Engine.Cgroup) != id || g.Limit != limit {
				continue
			}
			has, err := k.allPods().EngineGroup(g.ID, g.Engine.Cgroup).Settings()
			f = fact{name, limit, g.Guarantee, g.Class == hybrid.Sensitive, has}
			f.request = max(f.request, 0) // hybrid.NoGuarantee
			return err == nil && has.CPUs == g.CPUs
		}
		return false
	})
	return id, f
}

// TestKubelet: pods of a real kubelet have the CPUs of Candor at their start, after a restart, and with another limit.
func TestKubelet(t *testing.T) {
	k := newKubelet(t, "cpuManagerPolicy: none\n")
	k.manifest("log", 0, nil)
	k.manifest("web", 1000, sensitivePod)
	k.manifest("part", 300, sensitivePod)
	id, web := k.running("web-node", 1000, "")
	_, part := k.running("part-node", 300, "")
	_, log := k.running("log-node", 0, "")
	check := func(facts ...fact) {
		t.Helper()
		for _, what := range k.node.broken(facts) {
			t.Error(what)
		}
	}
	check(log, web, part)
	// The container ends, and the kubelet starts it again.
	if _, err := k.cri.StopContainer(context.Background(), &cri.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	id, now := k.running("web-node", 1000, id)
	if now.has != web.has {
		t.Errorf("restarted it has %+v, and had %+v", now.has, web.has)
	}
	if output := (&container{pod: &pod{lab: k.lab}, name: "web", id: id}).exec("nproc"); output != "1" {
		t.Errorf("nproc prints %s", output)
	}
	// Without an API server another limit is another pod.
	k.manifest("part", 500, sensitivePod)
	_, part = k.running("part-node", 500, "")
	_, log = k.running("log-node", 0, "")
	check(log, now, part)
	for _, name := range []string{"log", "web", "part"} {
		if err := os.Remove(k.path("manifests/" + name + ".json")); err != nil {
			t.Fatal(err)
		}
	}
	k.wait("the end of the pods", k.plugin, func() bool {
		s, err := k.state.Snapshot()
		return err == nil && len(s.Grants) == 0
	})
}

// TestKubeletStatic: with cpuManagerPolicy static no container is created, and kubectl describe shows the reason.
func TestKubeletStatic(t *testing.T) {
	k := newKubelet(t, "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	k.manifest("web", 1000, sensitivePod)
	const want = "set cpuManagerPolicy: none in the kubelet's configuration"
	k.wait("the refusal", k.daemon, func() bool { return strings.Contains(k.daemon.output(), want) })
	if s, err := k.state.Snapshot(); err != nil || len(s.Grants) != 0 {
		t.Errorf("refused, it is planned: %+v (%v)", s, err)
	}
}
