package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

const (
	// Version is the version of the state files that Candor writes while no container uses a Feature. The release before
	// this one reads it too. Candor reads the versions from OldestVersion to FeatureVersion.
	Version = 2
	// FeatureVersion is the version of the state files that Candor writes while a container uses a Feature.
	FeatureVersion = 3
	// OldestVersion is the lowest version of the state files that Candor reads.
	OldestVersion = 1

	maxUptime = 1 << 42 // milliseconds: 139 years

	// MaxSize is the largest size of a state file in bytes. A grant takes about 400 bytes.
	MaxSize = 16 << 20
)

// ErrNewer means that a later version of Candor has written the state. Every other defect of a state file is a
// BrokenError.
var ErrNewer = errors.New("written by a newer Candor")

// State is the content of the state file.
type State struct {
	Boot   string // the kernel's id of the boot in which the state was written
	Grants []*Grant
	// WithArguments are the containers whose program arguments the file holds, because an earlier version wrote it.
	WithArguments []string
}

// ByName returns grants by the names of their containers.
func ByName(grants []*Grant) map[string]*Grant {
	by := make(map[string]*Grant, len(grants))
	for _, g := range grants {
		by[g.ID] = g
	}
	return by
}

// fileState is version 3 of the state file. Version 2 has no features, and its grants have no helpers, hasHelper and
// bounds of leases. Version 1 also has no engines.
type fileState struct {
	fileHead
	Boot   string      `json:"boot"`
	Grants []fileGrant `json:"grants"`
}

type fileGrant struct {
	Name        string         `json:"name"`
	State       Phase          `json:"state"`
	Creator     Process        `json:"creator"`
	Main        Process        `json:"main"`
	Since       int64          `json:"sinceMs"`
	Deadline    int64          `json:"deadlineMs,omitempty"`
	Request     fileRequest    `json:"request"`
	CPUs        cpuset.Set     `json:"cpus"`
	Exclusive   cpuset.Set     `json:"exclusive"`
	Fractions   []fileFraction `json:"fractions,omitempty"`
	Quota       hybrid.Milli   `json:"quota,omitempty"`
	Weight      hybrid.Milli   `json:"weight"`
	TopologyMet bool           `json:"wishKept"`
	Engine      *fileEngine    `json:"engine,omitempty"`
	Lease       *fileLease     `json:"loan,omitempty"`
	HasHelper   bool           `json:"hasHelper,omitempty"`
}

type fileFraction struct {
	CPU   int          `json:"cpu"`
	Milli hybrid.Milli `json:"milli"`
}

// fileRequest is the request of a container. A request file beside the state holds it too, for the adoption of the
// container after the state is lost.
type fileRequest struct {
	Class     hybrid.Class          `json:"class"`
	Policy    hybrid.Policy         `json:"policy"`
	Limit     hybrid.Milli          `json:"limit"`
	Guarantee hybrid.Milli          `json:"guarantee,omitempty"`
	Topology  hybrid.TopologyPolicy `json:"topology"`
	Immovable bool                  `json:"immovable,omitempty"`
	PeriodUs  int64                 `json:"periodUs"`
	BurstUs   int64                 `json:"burstUs,omitempty"`
	BurstBy   spec.BurstBy          `json:"burstBy,omitempty"`
	Mems      bool                  `json:"mems,omitempty"`
	View      fileView              `json:"view"`
	OnResize  string                `json:"onResize"`
	Helpers   spec.Helpers          `json:"helpers,omitzero"`
	Command   string                `json:"command"`
}

// A fileView is a view in the state file. The releases before the memory views know "full", which is now the view of CPUs alone,
// and "affinity". So these two words have their former meaning in the file, and a container of such a release keeps the files
// that it has.
type fileView string

// fileViews maps the words in the state file to views.
var fileViews = map[fileView]spec.View{
	"affinity":         spec.ViewAffinity,
	"full":             spec.ViewCPU,
	"full+memory":      spec.ViewFull,
	"full+stat":        spec.ViewCPUStat,
	"full+memory+stat": spec.ViewFullStat,
}

func newFileView(v spec.View) fileView {
	for word, of := range fileViews {
		if of == v {
			return word
		}
	}
	return fileView(v) // the check of the container refuses it
}

func (f fileView) view() (spec.View, error) {
	if v, ok := fileViews[f]; ok {
		return v, nil
	}
	return "", fmt.Errorf("view %.40q: unknown", string(f))
}

// decodeState decodes a state file. It refuses unknown fields, trailing data, and values that Candor never writes.
func decodeState(data []byte) (State, error) {
	s, head, err := decodeGrants(data)
	if err != nil {
		var bad error
		if head, bad = decodeHead(data); bad != nil {
			return State{}, fmt.Errorf("not a state: %w", bad)
		}
	}
	if bad := head.check(); bad != nil {
		return State{}, bad
	}
	if err != nil {
		return State{}, err
	}
	return s, nil
}

// decodeHead decodes the head of a state whose grants cannot be decoded. The features of a later version can have another form.
func decodeHead(data []byte) (head fileHead, err error) {
	if err = json.Unmarshal(data, &head); err == nil {
		return head, nil
	}
	var only struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &only) == nil && only.Version > FeatureVersion {
		return fileHead{Version: only.Version}, nil
	}
	return fileHead{}, err
}

func decodeGrants(data []byte) (s State, head fileHead, err error) {
	var file fileState
	if err := fileio.DecodeStrict(data, &file); err != nil {
		return s, head, err
	}
	s.Boot = file.Boot
	taken := map[string]bool{}
	for i := range file.Grants {
		g, err := file.Grants[i].grant()
		if err == nil && taken[g.ID] {
			err = errors.New("named twice")
		}
		if err != nil {
			return s, head, fmt.Errorf("grant %d (%.64q): %w", i, file.Grants[i].Name, err)
		}
		taken[g.ID] = true
		if g.Command != file.Grants[i].Request.Command {
			s.WithArguments = append(s.WithArguments, g.ID)
		}
		s.Grants = append(s.Grants, &g)
	}
	return s, file.fileHead, nil
}

func newFileGrant(g *Grant) fileGrant {
	f := fileGrant{
		Name: g.ID, State: g.State, Creator: g.Creator, Main: g.Main,
		Since: g.Since.Milliseconds(), Deadline: g.Deadline.Milliseconds(),
		Request: newFileRequest(g),
		CPUs:    g.CPUs, Exclusive: g.Exclusive, Quota: g.Quota, Weight: g.Weight, TopologyMet: g.TopologyMet,
		Engine: newFileEngine(g.Engine), Lease: newFileLease(g.Lease), HasHelper: g.HasHelper,
	}
	for _, part := range g.Fractions {
		f.Fractions = append(f.Fractions, fileFraction(part))
	}
	return f
}

func newFileRequest(g *Grant) fileRequest {
	return fileRequest{
		g.Class, g.Policy, g.Limit, g.Guarantee, g.Topology, g.Immovable,
		g.Period.Microseconds(), g.Burst.Time.Microseconds(), g.Burst.By, g.Mems, newFileView(g.View), g.OnResize, g.Helpers,
		storedCommand(g.Command, g.Engine),
	}
}

// fileLabel is the content of a request file, which holds a container's request.
type fileLabel struct {
	Version int         `json:"version"`
	Main    Process     `json:"main"`
	Request fileRequest `json:"request"`
	Engine  *fileEngine `json:"engine,omitempty"`
}

func encodeLabel(g *Grant) []byte {
	return append(compactJSON(fileLabel{Version, g.Main, newFileRequest(g), newFileEngine(g.Engine)}), '\n')
}

// decodeLabel decodes a request file into g.
func decodeLabel(data []byte, g *Grant) error {
	var label fileLabel
	if err := fileio.DecodeStrict(data, &label); err != nil {
		return err
	}
	if label.Version < 1 || label.Version > Version {
		return fmt.Errorf("version %d: must be 1 to %d", label.Version, Version)
	}
	var err error
	if g.Engine, err = label.Engine.engine(); err != nil {
		return err
	}
	g.Main = label.Main
	return label.Request.apply(g.ID, g)
}

// grant converts a grant of the file and checks its fields. The allocator later checks that the grants do not contradict each
// other.
func (f *fileGrant) grant() (Grant, error) {
	if err := cgroup.CheckName(f.Name); err != nil {
		return Grant{}, err
	}
	if f.State != Pending && f.State != Running && f.State != Held {
		return Grant{}, fmt.Errorf("state %.40q: must be pending, running or held", f.State)
	}
	if min(f.Since, f.Deadline) < 0 || max(f.Since, f.Deadline) > maxUptime {
		return Grant{}, fmt.Errorf("since %d ms, deadline %d ms: must be a time since boot", f.Since, f.Deadline)
	}
	g := Grant{
		State: f.State, Creator: f.Creator, Main: f.Main, HasHelper: f.HasHelper,
		Since: time.Duration(f.Since) * time.Millisecond, Deadline: time.Duration(f.Deadline) * time.Millisecond,
	}
	var err error
	if g.Engine, err = f.Engine.engine(); err != nil {
		return Grant{}, err
	}
	if err := f.Request.apply(f.Name, &g); err != nil {
		return Grant{}, err
	}
	if g.Lease, err = f.Lease.lease(); err != nil {
		return Grant{}, err
	}
	g.CPUs, g.Exclusive, g.Quota, g.Weight, g.TopologyMet = f.CPUs, f.Exclusive, f.Quota, f.Weight, f.TopologyMet
	for _, part := range f.Fractions {
		if part.Milli < 1 || part.Milli > 999 || !g.CPUs.Contains(part.CPU) {
			return Grant{}, fmt.Errorf("fraction %v of CPU %d: out of range, or not a CPU of the container", part.Milli, part.CPU)
		}
		g.Fractions = append(g.Fractions, hybrid.Fraction(part))
	}
	switch {
	case !g.Exclusive.SubsetOf(&g.CPUs):
		return Grant{}, fmt.Errorf("exclusive %s: the container has %s", cputext.CPUs(g.Exclusive), cputext.CPUs(g.CPUs))
	case g.Quota < 0 || g.Quota > hybrid.MaxLimit || g.Weight < 0:
		return Grant{}, fmt.Errorf("quota %v, weight %v: out of range", g.Quota, g.Weight)
	}
	return g, nil
}

// apply sets the request and the spec of a grant. g.Engine must be set already, because storedCommand needs it.
func (f *fileRequest) apply(name string, g *Grant) error {
	g.Request = hybrid.Request{
		ID: name, Class: f.Class, Policy: f.Policy, Limit: f.Limit,
		Guarantee: f.Guarantee, Topology: f.Topology, Immovable: f.Immovable,
	}
	shown, err := f.View.view()
	if err != nil {
		return err
	}
	g.Spec = spec.Spec{
		Period:   time.Duration(f.PeriodUs) * time.Microsecond,
		Burst:    spec.Burst{By: f.BurstBy, Time: time.Duration(f.BurstUs) * time.Microsecond},
		Mems:     f.Mems,
		View:     shown,
		OnResize: f.OnResize,
		Helpers:  f.Helpers,
		Command:  storedCommand(f.Command, g.Engine),
	}
	if g.Limit < 0 || g.Limit > hybrid.MaxLimit {
		return fmt.Errorf("limit %d: must be 0 to %d thousandths of a CPU", g.Limit, hybrid.MaxLimit)
	}
	return g.Spec.Check()
}
