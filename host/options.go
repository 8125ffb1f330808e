package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/wholefile"
)

// NodeOptions are this machine's settings, the same for every operation. They
// are the administrator's: they stand in a file of their own, outlast a reboot,
// and may change at any time. Grants that do not fit a change are planned anew.
type NodeOptions struct {
	Reserved    cpuset.Set       `json:"reserved"`    // CPUs that no container gets
	MinShared   Amount           `json:"minShared"`   // CPU time that sensitive containers never get
	Algorithm   hybrid.Algorithm `json:"algorithm"`   // "candor" or "paper"
	UseIsolated bool             `json:"useIsolated"` // give the CPUs of isolcpus= too
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

// LoadOptions reads a machine's options. No file means the zero value; unknown
// fields and bad values are errors.
func LoadOptions(file string) (NodeOptions, error) {
	var o NodeOptions
	data, err := wholefile.Read(file, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = wholefile.DecodeStrict(data, &o)
	}
	if err != nil {
		return NodeOptions{}, fmt.Errorf("host options %s: %w", file, err)
	}
	return o, nil
}

// SaveOptions writes a machine's options; the next operation follows them.
func SaveOptions(file string, o NodeOptions) error {
	if err := wholefile.MakeDirs(filepath.Dir(file)); err != nil {
		return fmt.Errorf("host options: %w", err)
	}
	data, err := jsonText(o)
	if err == nil {
		err = wholefile.Replace(file, data)
	}
	if err != nil {
		return fmt.Errorf("host options %s: %w", file, err)
	}
	return nil
}
