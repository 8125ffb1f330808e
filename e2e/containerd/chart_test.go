package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/e2e/twins"
)

const candorImage = "lab.local/candor:1"

// A workload has the parts of a rendered chart that describe its pod.
type workload struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string // of the ConfigMap
	Spec     struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     podSpec
		}
	}
}

type podSpec struct {
	HostPID    bool `yaml:"hostPID"`
	Containers []struct {
		Image           string
		Args            []string
		Env             []struct{ Name, Value string }
		SecurityContext securityContext `yaml:"securityContext"`
		VolumeMounts    []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name      string
		HostPath  struct{ Path, Type string } `yaml:"hostPath"`
		ConfigMap struct{ Name string }       `yaml:"configMap"`
	}
}

type securityContext struct {
	Privileged               bool
	AllowPrivilegeEscalation bool  `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	RunAsUser                int64 `yaml:"runAsUser"`
	RunAsGroup               int64 `yaml:"runAsGroup"`
	Capabilities             struct{ Add, Drop []string }
}

// chart returns the parts of the rendered chart, with the lab's paths instead of a node's. rendered is the name of the manifests in
// deploy/helm/testdata; the lab's own manifests replace them. The lab has no pod network, so the metrics port is a free port of
// this machine.
func (l *lab) chart(rendered string) (config string, annotations map[string]string, spec podSpec) {
	l.Helper()
	file := "../../deploy/helm/testdata/" + rendered + ".yaml"
	if l.manifests != "" {
		file = l.manifests
	}
	text, err := os.ReadFile(file)
	if err != nil {
		l.Fatal(err)
	}
	here := strings.NewReplacer("/run/candor", l.path("candor"), "/etc/candor", l.path("etc"),
		"/var/run/nri", l.dir, "0.0.0.0:9464", "127.0.0.1:0").Replace(string(text))
	for part := range strings.SplitSeq(here, "\n---\n") {
		var w workload
		if err := yaml.Unmarshal([]byte(part), &w); err != nil {
			l.Fatal(err)
		}
		switch w.Kind {
		case "ConfigMap":
			config = w.Data["nri.yaml"]
		case "DaemonSet":
			annotations, spec = w.Spec.Template.Metadata.Annotations, w.Spec.Template.Spec
		}
	}
	if config == "" || len(spec.Containers) != 1 {
		l.Fatalf("no configuration, or not one container: %q %+v", config, spec)
	}
	return config, annotations, spec
}

// mounts returns the mounts that the kubelet would derive from the chart's volumes.
func (l *lab) mounts(spec *podSpec, config string) (mounts []*cri.Mount) {
	l.Helper()
	from := map[string]string{}
	for _, v := range spec.Volumes {
		from[v.Name] = v.HostPath.Path
		switch {
		case v.ConfigMap.Name != "":
			from[v.Name] = l.path("config")
			if err := os.MkdirAll(l.path("config"), 0o755); err != nil {
				l.Fatal(err)
			}
			l.write("config/nri.yaml", config)
		case v.HostPath.Type == "DirectoryOrCreate":
			if err := os.MkdirAll(v.HostPath.Path, 0o755); err != nil {
				l.Fatal(err)
			}
		case v.HostPath.Type != "Directory":
			l.Fatalf("volume %s: type %q", v.Name, v.HostPath.Type)
		}
	}
	for _, m := range spec.Containers[0].VolumeMounts {
		mounts = append(mounts, &cri.Mount{HostPath: from[m.Name], ContainerPath: m.MountPath, Readonly: m.ReadOnly})
	}
	return mounts
}

// security returns the CRI settings that the kubelet would derive from the chart's security context.
func security(spec *podSpec) *cri.LinuxContainerSecurityContext {
	pid := cri.NamespaceMode_CONTAINER
	if spec.HostPID {
		pid = cri.NamespaceMode_NODE
	}
	s := spec.Containers[0].SecurityContext
	return &cri.LinuxContainerSecurityContext{
		Privileged: s.Privileged, ReadonlyRootfs: s.ReadOnlyRootFilesystem, NoNewPrivs: !s.AllowPrivilegeEscalation,
		Capabilities: &cri.Capability{AddCapabilities: s.Capabilities.Add, DropCapabilities: s.Capabilities.Drop},
		RunAsUser:    &cri.Int64Value{Value: s.RunAsUser}, RunAsGroup: &cri.Int64Value{Value: s.RunAsGroup},
		Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
		NamespaceOptions: &cri.NamespaceOption{
			Network: cri.NamespaceMode_NODE, Pid: pid, Ipc: cri.NamespaceMode_POD},
		// The default masked paths of the kubelet.
		MaskedPaths: []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
}

// A charted is candor nri in the pod of the chart.
type charted struct {
	*container
	*prober
	log string // file
}

// startChart runs the chart's pod, and waits until it is ready.
func (l *lab) startChart() *charted {
	l.Helper()
	c := l.runChart("default")
	l.wait("candor nri in its pod", l.engine, func() bool {
		if text := c.output(); strings.Contains(text, "msg=synchronized") {
			c.prober = l.newProber(text)
		} else if strings.Contains(text, "candor nri: ") {
			l.Fatalf("it has ended:\n%s", text)
		}
		return c.prober != nil
	})
	if code, body := c.get("/readyz"); code != 200 {
		l.Fatalf("/readyz: %d %s", code, body)
	}
	return c
}

// runChart runs the chart's pod, as the kubelet runs it. rendered is the name of the chart's manifests (see chart).
func (l *lab) runChart(rendered string) *charted {
	l.Helper()
	config, annotations, spec := l.chart(rendered)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// Only here: the tests' groups are not the machine's.
	environment := []*cri.KeyValue{{Key: "CANDOR_CGROUP_PARENT", Value: []byte(l.parent + "-run")}}
	for _, e := range spec.Containers[0].Env {
		environment = append(environment, &cri.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	image := candorImage
	if l.manifests != "" {
		image = spec.Containers[0].Image
	}
	p := l.podIn(ctx, annotations, security(&spec).NamespaceOptions)
	log := fmt.Sprintf("candor-%d.log", podNumber.Add(1))
	r, err := l.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "candor", Attempt: uint32(podNumber.Add(1))},
			Image:    &cri.ImageSpec{Image: image},
			Command:  []string{"/candor"}, Args: spec.Containers[0].Args,
			Envs:    environment,
			Mounts:  l.mounts(&spec, config),
			LogPath: log,
			Linux:   &cri.LinuxContainerConfig{Resources: resources(0, 100), SecurityContext: security(&spec)},
		}})
	if err == nil {
		_, err = l.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId})
	}
	if err != nil {
		l.Fatal(err)
	}
	return &charted{container: &container{pod: p, name: "candor", id: r.ContainerId}, log: filepath.Join(l.path("logs"), log)}
}

// podIn creates a pod as newPod does, with other Linux namespaces.
func (l *lab) podIn(ctx context.Context, annotations map[string]string, in *cri.NamespaceOption) *pod {
	l.Helper()
	p := must[*pod](l)(l.newPod(0, 100, annotations))
	p.config.Linux.SecurityContext.NamespaceOptions = in
	_, err := l.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
	if err == nil {
		_, err = l.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
	}
	var r *cri.RunPodSandboxResponse
	if err == nil {
		r, err = l.cri.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	}
	if err != nil {
		l.Fatal(err)
	}
	p.id = r.PodSandboxId
	return p
}

func (c *charted) output() string {
	text, _ := os.ReadFile(c.log)
	return string(text)
}

// failClosed configures containerd to refuse containers without the plugin, as docs/deploy.md describes.
const failClosed = `
[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  required_plugins = ["candor"]
  tolerate_missing_plugins_annotation = "tolerate-missing-plugins.noderesource.dev"
`

// TestChart: candor nri works in the pod of the chart, with exactly the rights and mounts of that pod.
func TestChart(t *testing.T) {
	l := newEngine(t, failClosed)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	l.importImage(candorImage, map[string]string{"/candor": l.candor})
	c := l.startChart()
	rights := c.exec("grep", "-E", "^(CapEff|NoNewPrivs|Seccomp):", "/proc/self/status")
	if rights != "CapEff:\t0000000000080020\nNoNewPrivs:\t1\nSeccomp:\t2" { // CAP_KILL, CAP_SYS_PTRACE
		t.Errorf("it has other rights than in the chart:\n%s", rights)
	}
	if output := c.exec("sh", "-c", "echo >/file"); !strings.Contains(output, "Read-only file system") {
		t.Errorf("it can write to its own root: %s", output)
	}
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	web := must[*container](t)(must[*pod](t)(l.newPod(1000, 1000, sensitivePod)).run("web", 1000, 1000, true))
	web.sees()
	has, left := web.cpus(), log.cpus()
	if has.Overlaps(&left) {
		t.Errorf("web has %v, log %v", has, left)
	}
	if is, err := c.group().Populated(); !is || err != nil {
		t.Errorf("it is not in its own group any more: %v", err)
	}
	l.noted()
	c.wants(of("candor_container_view_mismatch", web, "sensitive"), 0)
	l.tellsOthers()

	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := must[*pod](t)(l.newPod(0, 0, nil)).run("early", 0, 0, false); err == nil {
		t.Error("a container was made while the plugin, which is required, is missing")
	}
	c = l.startChart()
	if again := web.cpus(); again != has {
		t.Errorf("after a restart of the plugin web has %v, had %v", again, has)
	}
	c.wants(of("candor_container_view_mismatch", web, "sensitive"), 0)
	if output := c.output(); strings.Contains(output, "level=ERROR") || strings.Contains(output, "cannot read") || strings.Contains(output, "cannot be read") {
		t.Errorf("the log:\n%s", output)
	}
}

// TestChartGivesBack: the pod of the chart with giveBack=true gives the containers back, with exactly the rights and mounts of that pod.
// The kernel's files of each container then equal those of the same container without Candor.
func TestChartGivesBack(t *testing.T) {
	l := newEngine(t)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	l.importImage(candorImage, map[string]string{"/candor": l.candor})
	c := l.startChart()
	kinds := []givenBackKind{
		sensitiveKind("an exclusive CPU", 1000, false),
		{"flexible", 300, 100, nil, false},
		{"flexible with a burst", 300, 100, map[string]string{"candor.dev/burst": "20ms"}, false},
	}
	start := func(kind givenBackKind, annotations map[string]string) int {
		p := must[*pod](t)(l.newPod(kind.limit, kind.request, annotations))
		return must[*container](t)(p.run("app", kind.limit, kind.request, annotations["candor.dev/class"] == "sensitive")).firstProcess()
	}
	var pairs []*twins.Pair
	for _, kind := range kinds {
		pairs = append(pairs, &twins.Pair{Name: kind.name, Given: start(kind, kind.annotations), Parents: 1})
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	for i, kind := range kinds {
		pairs[i].Plain = start(kind, nil)
	}
	if err := twins.Check(pairs); err == nil {
		t.Error("the containers equal their twins before they are given back")
	}
	idle := l.runChart("giveback")
	l.wait("candor nri --give-back in its pod", l.engine, func() bool { return strings.Contains(idle.output(), "all containers are given back") })
	if err := twins.Check(pairs); err != nil {
		t.Error(err)
	}
	if is, err := idle.group().Populated(); !is || err != nil {
		t.Errorf("candor nri --give-back has ended: %v, %v", is, err)
	}
}

// tellsOthers checks that a container with processes of another user gets its signal after a resize.
func (l *lab) tellsOthers() {
	l.Helper()
	p := must[*pod](l)(l.newPod(0, 0, map[string]string{"candor.dev/on-resize": "signal:USR1"}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := l.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "told"}, Image: &cri.ImageSpec{Image: busybox},
			Command: []string{"sh", "-c", `trap "echo told" USR1; echo up; while :; do sleep 0.1; done`}, LogPath: "told.log",
			Linux: &cri.LinuxContainerConfig{Resources: resources(300, 100),
				SecurityContext: &cri.LinuxContainerSecurityContext{RunAsUser: &cri.Int64Value{Value: 65534}, NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions}},
		}})
	if err == nil {
		_, err = l.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId})
	}
	if err != nil {
		l.Fatal(err)
	}
	waitForOutput := func(what string) {
		l.wait("the output "+what, l.engine, func() bool {
			text, _ := os.ReadFile(filepath.Join(l.path("logs"), "told.log"))
			return strings.Contains(string(text), " "+what+"\n")
		})
	}
	waitForOutput("up")
	if err := (&container{pod: p, name: "told", id: r.ContainerId, limit: 300, request: 100}).resize(200); err != nil {
		l.Fatal(err)
	}
	waitForOutput("told")
}
