package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/topology"
)

const onlineFile = "/sys/devices/system/cpu/online"

// A machineCache caches the topology while the set of online CPUs is unchanged. To read the topology, Candor reads a
// dozen files per CPU.
type machineCache struct {
	sync.Mutex
	online  string
	machine *topology.Machine
}

func (c *machineCache) get() (*topology.Machine, error) {
	c.Lock()
	defer c.Unlock()
	online, err := kernelfs.Read(onlineFile)
	if err != nil {
		return nil, err
	}
	if c.machine != nil && c.online == string(online) {
		return c.machine, nil
	}
	machine, err := topology.ReadHost()
	if err != nil {
		return nil, err
	}
	c.machine, c.online = machine, string(online)
	return machine, nil
}

// ReadMachine reads this machine's topology. It returns the complete topology even inside a container whose view hides
// most of it. The error is ErrInside if it cannot see the machine.
func ReadMachine() (m *topology.Machine, err error) {
	err = outsideViews(func() error {
		m, err = topology.ReadHost()
		return err
	})
	return m, err
}

// ErrInside means that this process runs inside a container's view and cannot see the machine.
var ErrInside = errors.New("inside a container's view of the CPUs")

// outsideViews runs f where the kernel's own /sys and /proc are visible. In a container of Candor, a view is mounted over some of
// their files. If candor read the view, it would treat all other CPUs as offline, and move every container. In such a container, f
// runs on a thread with its own mount namespace, from which the view is unmounted.
func outsideViews(f func() error) error {
	name := mountedView()
	if name == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unmountViews(); err != nil {
			done <- fmt.Errorf("%w (%s): %w; run candor outside the container, or as root", ErrInside, name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// unmountViews gives the calling thread a mount namespace without views.
func unmountViews() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	for mountedView() != "" { // a container inside a container has two views
		for _, file := range []string{onlineFile, "/proc/cpuinfo"} {
			if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", file, err)
			}
		}
	}
	return nil
}

// mountedView returns the name of the container whose view is mounted over the list of online CPUs, or "".
func mountedView() string {
	var file, dir unix.Stat_t // a mounted file has another device; this avoids parsing a long mount table
	if unix.Stat(onlineFile, &file) == nil && unix.Stat(filepath.Dir(onlineFile), &dir) == nil && file.Dev == dir.Dev {
		return ""
	}
	name, _ := viewInMounts("/proc/thread-self/mountinfo", procfs.MaxHostMounts)
	return name
}

// viewInMounts searches a mount table for a view that is mounted over the list of online CPUs. It returns the name of
// the view's container, or "". The error is kernelfs.ErrTooLong for a table beyond limit bytes.
func viewInMounts(file string, limit int64) (name string, err error) {
	err = procfs.EachMount(file, limit, []string{onlineFile}, func(m *mountinfo.Info) {
		if m.Mountpoint != onlineFile {
			return
		}
		// The root of the mount of a view is /candor/views/web/online in some file system.
		if views, container := filepath.Split(filepath.Dir(m.Root)); filepath.Base(m.Root) == "online" && filepath.Base(views) == "views" {
			name = container
		}
	})
	return name, err
}

// NodeOptions returns the machine's options.
func (h *Host) NodeOptions() (NodeOptions, error) { return h.options.load(h.config) }

// Usable returns the CPUs that containers of this machine can get.
func (h *Host) Usable() (cpuset.Set, error) {
	node, err := h.newNode()
	if err != nil {
		return cpuset.Set{}, err
	}
	return node.Usable(), nil
}

// A basis holds the data from which a node without containers is created. Equal bases give equal nodes.
type basis struct {
	machine *topology.Machine
	options NodeOptions // Reserved includes the preserved CPUs
	usable  cpuset.Set
	mems    cpuset.Set // default memory nodes of cgroups
}

// basis returns the present basis of this machine.
func (h *Host) basis() (basis, error) {
	options, err := h.NodeOptions()
	if err != nil {
		return basis{}, err
	}
	return h.basisWith(options)
}

// basisWith returns the basis with the given options instead of the machine's options.
func (h *Host) basisWith(options NodeOptions) (basis, error) {
	machine, err := h.machine.get()
	if err != nil {
		return basis{}, err
	}
	usable, _, mems, err := h.usable()
	if err != nil {
		return basis{}, err
	}
	return basis{machine, h.withPreserved(options, usable.Intersect(machine.Online)), usable, mems}, nil
}

// node returns a node without containers. config is the file that holds the options, for errors.
func (b *basis) node(config string) (*hybrid.Node, error) {
	node, err := b.options.node(b.machine, b.usable)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadOptions, config, err)
	}
	return node, nil
}

// NodeOptions are the administrator's settings of this machine, the same for every operation. A separate file holds the
// options, so they outlast a reboot. The options can change at any time; the next operation replans the grants that no
// longer fit.
type NodeOptions struct {
	Reserved    cpuset.Set       `json:"reserved"`    // CPUs that no container gets
	MinShared   Amount           `json:"minShared"`   // CPU time that sensitive containers never get
	Algorithm   hybrid.Algorithm `json:"algorithm"`   // "candor" or "paper"
	UseIsolated bool             `json:"useIsolated"` // use the CPUs of isolcpus= too
	// ImageSettings names the settings that an image can choose although they take resources from other containers,
	// such as burst. Other settings need no permission.
	ImageSettings SettingNames `json:"imageSettings,omitzero"`
	// Helpers is the minimum level of helper accounting for all containers.
	Helpers spec.Helpers `json:"helpers,omitzero"`
}

// SettingNames are names of settings, separated by commas. JSON represents them as a list.
type SettingNames string

// Names returns the names.
func (s SettingNames) Names() []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), ",")
}

// MarshalJSON writes the names as a list.
func (s SettingNames) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON reads a list of names. A name must not be empty or contain a comma.
func (s *SettingNames) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	for _, name := range names {
		if name == "" || strings.Contains(name, ",") {
			return fmt.Errorf("setting %.60q: must be a name such as burst", name)
		}
	}
	*s = SettingNames(strings.Join(names, ","))
	return nil
}

// An Amount is a hybrid.Milli that JSON represents as text such as "500m".
type Amount hybrid.Milli

// MarshalText writes the amount as Kubernetes does.
func (a Amount) MarshalText() ([]byte, error) { return []byte(hybrid.Milli(a).String()), nil }

// UnmarshalText reads an amount such as "500m" or "1.5".
func (a *Amount) UnmarshalText(text []byte) error {
	m, err := hybrid.ParseMilli(string(text))
	*a = Amount(m)
	return err
}

// DefaultConfig is the file that holds a machine's NodeOptions.
const DefaultConfig = "/etc/candor/host.json"

// ErrBadOptions means that the options file is invalid, or that this machine cannot meet the options.
var ErrBadOptions = errors.New("host options")

// exampleOptions shows each field, for error messages.
const exampleOptions = `{"reserved":"0-1","minShared":"500m","algorithm":"candor","useIsolated":false}`

// LoadOptions reads a machine's options. If the file does not exist, it returns the zero value. The error is
// ErrBadOptions for unknown fields and invalid values.
func LoadOptions(file string) (NodeOptions, error) { return new(optionsCache).load(file) }

// An optionsCache caches the parsed options as long as the file's text is unchanged.
type optionsCache struct{ last atomic.Pointer[readOptions] }

type readOptions struct {
	text    []byte
	options NodeOptions
}

func (c *optionsCache) load(file string) (o NodeOptions, err error) {
	text, err := fileio.Read(file, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if last := c.last.Load(); err == nil && last != nil && bytes.Equal(text, last.text) {
		return last.options, nil
	}
	if err == nil {
		err = fileio.DecodeStrict(text, &o)
	}
	if err != nil {
		return NodeOptions{}, fmt.Errorf("%w %s: %w; write a file such as %s", ErrBadOptions, file, err, exampleOptions)
	}
	c.last.Store(&readOptions{text, o})
	return o, nil
}

// CheckReserved refuses reserved CPUs that a machine does not have. Offline CPUs are accepted, because they can come
// online.
func CheckReserved(reserved cpuset.Set, m *topology.Machine) error {
	if unknown := reserved.Minus(m.Online.Union(m.Offline)); !unknown.IsEmpty() {
		return fmt.Errorf("reserved %v: the machine does not have %s; use CPUs of %v", reserved, cputext.CPUs(unknown), m.Online.Union(m.Offline))
	}
	return nil
}

// node returns a node of the machine without containers. usable holds the CPUs that the cpusets of the parent cgroups allow for
// containers (Host.usable).
func (o *NodeOptions) node(machine *topology.Machine, usable cpuset.Set) (*hybrid.Node, error) {
	if err := CheckReserved(o.Reserved, machine); err != nil {
		return nil, err
	}
	if free := usable.Intersect(machine.Online); !free.IsEmpty() && free.SubsetOf(&o.Reserved) {
		return nil, fmt.Errorf("reserved %v: no CPU of Candor's parent cgroup (%v) would remain; reserve fewer", o.Reserved, free)
	}
	return hybrid.NewNode(machine, hybrid.Options{
		Algorithm:   o.Algorithm,
		Usable:      usable,
		Reserved:    o.Reserved,
		UseIsolated: o.UseIsolated,
		MinShared:   hybrid.Milli(o.MinShared),
	})
}

// SetOptions saves the options if this machine can meet them. Otherwise it returns ErrBadOptions and does not change
// the file.
func (h *Host) SetOptions(o NodeOptions) error {
	if err := h.CheckPlanOnly(); err != nil {
		return err
	}
	err := outsideViews(func() error { _, err := h.nodeWith(o); return err })
	if err != nil {
		return err
	}
	return SaveOptions(h.config, o)
}

// SaveOptions writes a machine's options. The next operation applies the new options.
func SaveOptions(file string, o NodeOptions) error {
	if err := fileio.MakeDirs(filepath.Dir(file)); err != nil {
		return fmt.Errorf("host options: %w", err)
	}
	data, err := fileio.JSONText(o)
	if err == nil {
		err = fileio.Replace(file, data)
	}
	if err != nil {
		return fmt.Errorf("host options %s: %w", file, err)
	}
	return nil
}
