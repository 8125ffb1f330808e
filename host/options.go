package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/topology"
)

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
	data, err := jsonText(o)
	if err == nil {
		err = fileio.Replace(file, data)
	}
	if err != nil {
		return fmt.Errorf("host options %s: %w", file, err)
	}
	return nil
}
