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

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/topology"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const onlineFile = "/sys/devices/system/cpu/online"

// A machineCache keeps the topology while the same CPUs are online: reading it
// takes a dozen files a CPU.
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

// ReadMachine reads this machine's topology: the machine's own also where a container's
// view hides most of it. The error is ErrInside where that cannot be seen.
func ReadMachine() (m *topology.Machine, err error) {
	err = outside(func() error {
		m, err = topology.ReadHost()
		return err
	})
	return m, err
}

// ErrInside: this is inside a container's view, and the machine cannot be seen.
var ErrInside = errors.New("inside a container's view of the CPUs")

// outside runs f where the kernel's own /sys and /proc are seen. In a container of
// Candor a view is mounted over some of it: a candor that believed the view would
// take all other CPUs for gone, and move everybody. There f runs on a thread with a
// mount namespace of its own, from which the view is taken.
func outside(f func() error) error {
	name := viewHere()
	if name == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := takeViewsOff(); err != nil {
			done <- fmt.Errorf("%w (%s): run candor outside of it, or as root: %w", ErrInside, name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// takeViewsOff gives the calling thread a mount namespace without views.
func takeViewsOff() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	for viewHere() != "" { // a container that was started in a container has two
		for _, file := range []string{onlineFile, "/proc/cpuinfo"} {
			if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", file, err)
			}
		}
	}
	return nil
}

// viewHere returns the name of the container whose view is mounted over the
// list of online CPUs; "" if none is.
func viewHere() string {
	var file, dir unix.Stat_t // a mounted file is of another file system: the list of mounts may be long
	if unix.Stat(onlineFile, &file) == nil && unix.Stat(filepath.Dir(onlineFile), &dir) == nil && file.Dev == dir.Dev {
		return ""
	}
	name, _, _ := viewIn("/proc/thread-self/mountinfo", procfs.MaxHostMounts)
	return name
}

// viewIn returns the name of the container whose view is mounted over the list of online CPUs in a mount table, "" if
// none is, and whether a later mount covers that view. The error is kernelfs.ErrTooLong for a table beyond limit bytes.
func viewIn(file string, limit int64) (name string, isCovered bool, err error) {
	err = procfs.EachMount(file, limit, []string{onlineFile}, func(m *mountinfo.Info) {
		if m.Mountpoint != onlineFile {
			return
		}
		isCovered = true
		// The root of the mount of a view is /candor/views/web/online in some file system.
		if views, of := filepath.Split(filepath.Dir(m.Root)); filepath.Base(m.Root) == "online" && filepath.Base(views) == "views" {
			name, isCovered = of, false
		}
	})
	return name, isCovered, err
}

// NodeOptions returns the machine's options.
func (h *Host) NodeOptions() (NodeOptions, error) { return h.options.load(h.config) }

// Usable returns the CPUs that this machine has for containers.
func (h *Host) Usable() (cpuset.Set, error) {
	node, err := h.newNode()
	if err != nil {
		return cpuset.Set{}, err
	}
	return node.Usable(), nil
}

// A basis is what a node without containers is made of: nodes with the same one are the same.
type basis struct {
	machine *topology.Machine
	options NodeOptions // with the CPUs of containers that are left alone
	usable  cpuset.Set
	mems    cpuset.Set // the memory nodes that groups have unless told
}

// basis is what holds of this machine now.
func (h *Host) basis() (basis, error) {
	options, err := h.NodeOptions()
	if err != nil {
		return basis{}, err
	}
	return h.basisWith(options)
}

// basisWith is basis by other options than the machine's.
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

// node returns a node without containers. config is the file that the options are from.
func (b *basis) node(config string) (*hybrid.Node, error) {
	node, err := b.options.node(b.machine, b.usable)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadOptions, config, err)
	}
	return node, nil
}

// NodeOptions are this machine's settings, the same for every operation. They
// are the administrator's: they stand in a file of their own, outlast a reboot,
// and may change at any time. Grants that do not fit a change are planned anew.
type NodeOptions struct {
	Reserved    cpuset.Set       `json:"reserved"`    // CPUs that no container gets
	MinShared   Amount           `json:"minShared"`   // CPU time that sensitive containers never get
	Algorithm   hybrid.Algorithm `json:"algorithm"`   // "candor" or "paper"
	UseIsolated bool             `json:"useIsolated"` // give the CPUs of isolcpus= too
	// ImageSettings are the settings that an image may choose beyond those that take from no other container, such as burst.
	ImageSettings SettingNames `json:"imageSettings,omitzero"`
}

// SettingNames are names of settings, with commas between them; JSON writes them as a list.
type SettingNames string

// Names returns the names.
func (s SettingNames) Names() []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), ",")
}

// MarshalJSON and UnmarshalJSON write and read a list of names.
func (s SettingNames) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

func (s *SettingNames) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	for _, name := range names {
		if name == "" || strings.Contains(name, ",") {
			return fmt.Errorf("setting %.60q: want a name, such as burst", name)
		}
	}
	*s = SettingNames(strings.Join(names, ","))
	return nil
}

// An Amount is a hybrid.Milli that JSON writes as a word: "500m".
type Amount hybrid.Milli

// MarshalText and UnmarshalText write and read the amount as Kubernetes does.
func (a Amount) MarshalText() ([]byte, error) { return []byte(hybrid.Milli(a).String()), nil }

func (a *Amount) UnmarshalText(text []byte) error {
	m, err := hybrid.ParseMilli(string(text))
	*a = Amount(m)
	return err
}

// DefaultConfig is the file that holds a machine's NodeOptions.
const DefaultConfig = "/etc/candor/host.json"

// ErrBadOptions is a file of options that cannot be meant, or not on this machine.
var ErrBadOptions = errors.New("host options")

// exampleOptions shows each field, for those whose file cannot be read.
const exampleOptions = `{"reserved":"0-1","minShared":"500m","algorithm":"candor","useIsolated":false}`

// LoadOptions reads a machine's options. No file means the zero value; unknown
// fields and bad values are ErrBadOptions.
func LoadOptions(file string) (NodeOptions, error) { return new(optionsCache).load(file) }

// An optionsCache keeps what a file of options meant for as long as it has the same text.
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
		return NodeOptions{}, fmt.Errorf("%w %s: %w (want a file such as %s)", ErrBadOptions, file, err, exampleOptions)
	}
	c.last.Store(&readOptions{text, o})
	return o, nil
}

// CheckReserved refuses reserved CPUs that a machine does not have. Those that
// are offline may come back.
func CheckReserved(reserved cpuset.Set, m *topology.Machine) error {
	if unknown := reserved.Minus(m.Online.Union(m.Offline)); !unknown.IsEmpty() {
		return fmt.Errorf("reserved %v: the machine does not have %s; want some of %v", reserved, cputext.CPUs(unknown), m.Online.Union(m.Offline))
	}
	return nil
}

// node returns a node of the machine without containers. Its CPUs are among usable,
// those that the cgroup has.
func (o *NodeOptions) node(machine *topology.Machine, usable cpuset.Set) (*hybrid.Node, error) {
	if err := CheckReserved(o.Reserved, machine); err != nil {
		return nil, err
	}
	if free := usable.Intersect(machine.Online); !free.IsEmpty() && free.SubsetOf(&o.Reserved) {
		return nil, fmt.Errorf("reserved %v: no CPU is left to give, Candor's parent cgroup has %v; reserve fewer", o.Reserved, free)
	}
	return hybrid.NewNode(machine, hybrid.Options{
		Algorithm:   o.Algorithm,
		Usable:      usable,
		Reserved:    o.Reserved,
		UseIsolated: o.UseIsolated,
		MinShared:   hybrid.Milli(o.MinShared),
	})
}

// SetOptions is SaveOptions for options that this machine can meet; others are ErrBadOptions, and the
// file stays as it is.
func (h *Host) SetOptions(o NodeOptions) error {
	if err := h.CheckPlanOnly(); err != nil {
		return err
	}
	err := outside(func() error { _, err := h.nodeWith(o); return err })
	if err != nil {
		return err
	}
	return SaveOptions(h.config, o)
}

// SaveOptions writes a machine's options; the next operation follows them.
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
