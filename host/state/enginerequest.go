package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/fileio"
)

// An EngineRequest holds the CPU settings that a container engine requested for a container, in the units of OCI's linux.resources.cpu.
// candor uninstall gives the container these settings back. The state stores them in engine-requests/NAME, but only if they differ from the
// settings that follow from the grant.
type EngineRequest struct {
	QuotaUs  int64 `json:"quotaUs,omitempty"` // per period; 0: no quota
	PeriodUs int64 `json:"periodUs"`
	BurstUs  int64 `json:"burstUs,omitempty"`
	Shares   int64 `json:"shares,omitempty"` // cpu.shares; 0: unset
	Weight   int64 `json:"weight,omitempty"` // cpu.weight of linux.resources.unified; 0: unset
}

// Normal returns the request in a unique form: with the kernel's default period if the period is unset, and with 0 instead of
// negative values.
func (r EngineRequest) Normal() EngineRequest {
	if r.PeriodUs <= 0 {
		r.PeriodUs = bandwidth.DefaultPeriod.Microseconds()
	}
	r.QuotaUs, r.BurstUs, r.Shares, r.Weight = max(r.QuotaUs, 0), max(r.BurstUs, 0), max(r.Shares, 0), max(r.Weight, 0)
	return r
}

// maxRequested bounds the numbers of a stored request.
const maxRequested = 1 << 42

func (r *EngineRequest) check() error {
	for _, n := range []int64{r.QuotaUs, r.PeriodUs, r.BurstUs, r.Shares, r.Weight} {
		if n < 0 || n > maxRequested {
			return fmt.Errorf("%d: must be 0 to %d", n, int64(maxRequested))
		}
	}
	if r.PeriodUs == 0 {
		return errors.New("period 0: must be a number of microseconds")
	}
	return nil
}

// engineRequestFile is the content of engine-requests/NAME. The cgroup distinguishes a container from its successor.
type engineRequestFile struct {
	Cgroup  string        `json:"cgroup,omitempty"`
	Request EngineRequest `json:"request"`
}

func (s Store) engineRequestFile(name string) string {
	return filepath.Join(s.Dir, "engine-requests", name)
}

// SaveEngineRequest stores the settings that an engine requested for a container. If r is nil, it removes a stored
// request.
func (s Store) SaveEngineRequest(g *Grant, r *EngineRequest) error {
	file := s.engineRequestFile(g.ID)
	if r == nil {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("engine's request of %s: %w", g.ID, err)
		}
		return nil
	}
	text := append(compactJSON(engineRequestFile{g.Engine.Cgroup, *r}), '\n')
	err := fileio.MakeDir(filepath.Dir(file))
	if err == nil {
		err = fileio.Replace(file, text)
	}
	if err != nil {
		return fmt.Errorf("engine's request of %s: %w", g.ID, err)
	}
	return nil
}

// LoadEngineRequest returns the stored request for a container. ok is false if there is none, if it belongs to another
// cgroup, or if it cannot be read.
func (s Store) LoadEngineRequest(g *Grant) (r EngineRequest, ok bool) {
	var file engineRequestFile
	text, err := fileio.ReadNoLink(s.engineRequestFile(g.ID), 1<<16)
	if err != nil || fileio.DecodeStrict(text, &file) != nil || file.Request.check() != nil {
		return r, false
	}
	return file.Request, file.Cgroup == g.Engine.Cgroup
}

// WeightScales are the conversions from cpu.shares to cpu.weight that Candor has observed on this machine, one for each kind of runtime.
type WeightScales struct {
	NRI cgroup.WeightScale `json:"nri,omitempty"` // runtime of the containers of pods
	OCI cgroup.WeightScale `json:"oci,omitempty"` // runtime of Docker, Podman and nerdctl
}

// Of returns the scale that applies to a container; "" if no conversion was seen.
func (w *WeightScales) Of(g *Grant) *cgroup.WeightScale {
	if g.Engine.Pod != "" {
		return &w.NRI
	}
	return &w.OCI
}

func (s Store) weightScaleFile() string { return filepath.Join(s.Dir, "weight-scales.json") }

// LoadWeightScales returns the stored scales. A missing or invalid file gives the zero value.
func (s Store) LoadWeightScales() (w WeightScales) {
	text, err := fileio.ReadNoLink(s.weightScaleFile(), 1<<12)
	if err != nil || fileio.DecodeStrict(text, &w) != nil {
		return WeightScales{}
	}
	return w
}

// SaveWeightScales stores the scales.
func (s Store) SaveWeightScales(w WeightScales) error {
	return fileio.Replace(s.weightScaleFile(), append(compactJSON(w), '\n'))
}
