package containerd

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// The runtime's second handler lets systemd create the groups. It does not use pivot_root, which is
// impossible if the root is the initramfs.
const systemdHandler = `
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.systemd]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.systemd.options]
        SystemdCgroup = true
        NoPivotRoot = true
`

// A booted is a lab on a machine with systemd, which creates all groups.
type booted struct {
	*census
	counts *prober
	bus    *systemd.Conn
}

func newBooted(t *testing.T) *booted {
	t.Helper()
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("makes kubepods.slice: needs a machine of its own with systemd: make test-guest boots one")
	}
	bus, err := systemd.NewWithContext(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	t.Cleanup(func() { systemctl(t, "stop", "kubepods.slice") })
	l := newEngine(t, systemdHandler)
	l.handler = "systemd"
	// The plugin repairs on demand.
	l.write("nri.yaml", "version: 1\nrepairEvery: 1h\nnode: {minShared: 100m}\n")
	b := &booted{census: newCensus(l), bus: bus}
	b.restart()
	return b
}

// restart starts the plugin with a new metrics address.
func (b *booted) restart() {
	b.Helper()
	b.startPlugin("--metrics", "127.0.0.1:0", "--cgroup-parent", "candor.slice")
	b.counts = b.newProber(b.plugin.output())
}

func systemctl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// reload makes systemd rewrite the files of all units. systemd answers the second request only after the reload.
func (b *booted) reload() {
	b.Helper()
	systemctl(b, "daemon-reload")
	systemctl(b, "show", "--property=SystemState")
}

// pod creates a pod in a slice like the slices of the kubelet's systemd driver.
func (b *booted) pod(qos string, limit, request hybrid.Milli, annotations map[string]string) *pod {
	b.Helper()
	n := podNumber.Add(1)
	uid := fmt.Sprintf("8c1b93a0-0000-4000-8000-%012d", n)
	slice := "kubepods-" + qos + "pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	b.makeSlice(slice, limit, request)
	scope, err := cgroup.EnginePath(slice + "::any")
	if err != nil {
		b.Fatal(err)
	}
	p := &pod{lab: b.lab, name: fmt.Sprintf("pod%d", n), limit: limit, slice: path.Dir(scope)}
	if err := p.begin(slice, uid, request, annotations); err != nil {
		b.Fatal(err)
	}
	return p
}

// makeSlice creates a slice as the kubelet's cgroup library does: the unit with its properties, and then the files.
func (b *booted) makeSlice(slice string, limit, request hybrid.Milli) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	weight := b.allPods().PodWeight(int(request))
	perSecond := uint64(math.MaxUint64)
	if limit != 0 {
		perSecond = uint64(limit+9) / 10 * 10000
	}
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	done := make(chan string, 1)
	_, err := b.bus.StartTransientUnitContext(ctx, slice, "replace", []systemd.Property{
		systemd.PropDescription("libcontainer container " + slice), property("DefaultDependencies", false),
		property("CPUAccounting", true), property("MemoryAccounting", true), property("TasksAccounting", true),
		property("CPUWeight", uint64(weight)), property("CPUQuotaPerSecUSec", perSecond),
	}, done)
	if err != nil {
		b.Fatal(err)
	}
	if result := <-done; result != "done" {
		b.Fatalf("%s: %s", slice, result)
	}
}

// unit returns the name of the container's scope.
func (c *container) unit() string { return "cri-containerd-" + c.id + ".scope" }

// repair makes the plugin compare the groups with the state, and returns the number of reverted settings.
func (b *booted) repair() (drift float64) {
	b.Helper()
	count := func(series string) float64 {
		b.Helper()
		n, _ := b.counts.value(series)
		return n
	}
	const drifts, operations = "candor_drift_repairs_total", `candor_operation_duration_seconds_count{phase="apply"}`
	before, done := count(drifts), count(operations)
	if err := b.plugin.Process.Signal(syscall.SIGHUP); err != nil {
		b.Fatal(err)
	}
	b.wait("a repair", b.plugin, func() bool { return count(operations) > done })
	return count(drifts) - before
}

// keeps reloads systemd, and checks that no container has changed and nothing needs a repair. The exception
// is a container whose quota is between two steps of systemd's rounding.
func (b *booted) keeps(when string, between *container) {
	b.Helper()
	for ctr := range b.has() {
		b.wait("the update of the unit of "+ctr.name, b.plugin, func() bool { return b.unitMatches(ctr, must[cgroup.Settings](b)(ctr.has())) })
	}
	var had map[*container]cgroup.Settings
	b.quiet(func() { had = b.has() }) // no program changes units now
	b.reload()
	drift := 0.0
	for ctr, want := range had {
		if ctr == between {
			drift, want.Quota = 1, 13*time.Millisecond
		}
		if now, err := ctr.has(); err != nil || now != want {
			b.Errorf("%s: after a reload %s has %+v, want %+v (%v)", when, ctr.name, now, want, err)
		}
	}
	if n := b.repair(); n != drift {
		b.Errorf("%s: %v were set back, want %v\n%s", when, n, drift, b.plugin.output())
	}
	b.unmoved(had)
	b.check()
}

// start starts a container in a new pod.
func (b *booted) start(name, qos string, limit, request hybrid.Milli, sensitive bool) *container {
	b.Helper()
	var annotations map[string]string
	if sensitive {
		annotations = sensitivePod
	}
	p := b.pod(qos, limit, request, annotations)
	ctr := must[*container](b)(p.run(name, limit, request, sensitive))
	b.begin(ctr)
	return ctr
}

// TestSystemdCgroup: systemd creates the groups of the containers, in slices like those of the kubelet. The
// settings outlive a reload of systemd, which rewrites all files of its units. Foreign changes through
// systemd are reverted there, too.
func TestSystemdCgroup(t *testing.T) {
	b := newBooted(t)
	if b.node.usable.Count() < 4 {
		t.Fatalf("needs 4 CPUs, has %v", b.node.usable)
	}
	log := b.start("log", "burstable-", 400, 100, false)
	web := b.start("web", "", 1500, 1500, true)
	part := b.start("part", "", 125, 125, true)
	web.pod.isLifted("a slice", true, 1000)
	b.keeps("begun", part)
	web.pod.isLifted("a slice after a reload", true, 1000)

	own := b.start("own", "", 1000, 1000, true) // shared CPUs become its exclusive CPUs
	b.keeps("others moved", part)

	for _, limit := range []hybrid.Milli{2000, 1500} {
		b.resize(web, limit)
		web.pod.isLifted("a slice, resized", true, map[hybrid.Milli]hybrid.Milli{2000: 2000, 1500: 1000}[limit])
	}
	b.keeps("resized", part)
	b.setByHand(log, "AllowedCPUs="+b.node.usable.String(), "CPUQuota=10%", "CPUWeight=7")
	b.setByHand(own, "AllowedCPUs="+log.cpus().String())
	b.keeps("set by hand", part)

	b.plugin.kill()
	b.reload()
	b.restart()
	b.keeps("the plugin started anew", part)

	b.end(own)
	if err := own.pod.remove(); err != nil {
		t.Fatal(err)
	}
	b.keeps("one has gone", part)
	for _, ctr := range []*container{web, part, log} {
		b.end(ctr)
		if err := ctr.pod.remove(); err != nil {
			t.Error(err)
		}
	}
}

// unitMatches reports whether the properties of a container's unit equal the container's settings.
func (b *booted) unitMatches(ctr *container, has cgroup.Settings) bool {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	of, err := b.bus.GetUnitTypePropertiesContext(ctx, ctr.unit(), "Scope")
	if err != nil {
		b.Fatal(err)
	}
	var cpus cpuset.Set
	for i, bits := range of["AllowedCPUs"].([]byte) {
		for bit := range 8 {
			if bits&(1<<bit) != 0 {
				cpus.Add(8*i + bit)
			}
		}
	}
	perSecond := uint64(math.MaxUint64)
	if has.Quota != 0 {
		perSecond = uint64((has.Quota*100+has.Period-1)/has.Period) * 10000 // whole hundredths of a CPU
	}
	return cpus == has.CPUs && of["CPUQuotaPerSecUSec"].(uint64) == perSecond && of["CPUWeight"].(uint64) == uint64(has.Weight)/10
}

// setByHand changes a container's unit, and checks that the plugin reverts the change.
func (b *booted) setByHand(ctr *container, properties ...string) {
	b.Helper()
	had := must[cgroup.Settings](b)(ctr.has())
	systemctl(b, append([]string{"set-property", "--runtime", ctr.unit()}, properties...)...)
	systemctl(b, "show", "--property=SystemState")
	if now := must[cgroup.Settings](b)(ctr.has()); now == had {
		b.Fatalf("%v did not change anything", properties)
	}
	if n := b.repair(); n != 1 {
		b.Errorf("%v: %v were set back\n%s", properties, n, b.plugin.output())
	}
	if now := must[cgroup.Settings](b)(ctr.has()); now != had {
		b.Errorf("%v: it has %+v, and had %+v", properties, now, had)
	}
}

// resize resizes a container in place as the kubelet does with its systemd driver: on cgroup v2, the pod's unit first.
func (b *booted) resize(ctr *container, limit hybrid.Milli) {
	b.Helper()
	systemctl(b, "set-property", "--runtime", path.Base(ctr.slice), fmt.Sprintf("CPUQuota=%d%%", limit/10))
	ctr.pod.limit, ctr.limit, ctr.request = limit, limit, limit
	if err := ctr.overwrite(resources(limit, limit)); err != nil {
		b.Fatal(err)
	}
}
