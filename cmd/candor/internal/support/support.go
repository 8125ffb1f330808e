// Package support writes the state of a machine to an archive, for the report of a problem. The archive has no arguments and no
// environment of containers. On request, it has no names of containers, pods, namespaces, cgroups and machines either.
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/topology"
)

// Layout is the version of the archive's layout. It changes with each change of a file's name or form.
const Layout = 1

// Folder is the directory of all files in the archive.
const Folder = "candor-support"

// Contents are the parts of an archive. A nil part is omitted.
type Contents struct {
	Candor   string // version
	Created  time.Time
	Host     string // name of the machine; an anonymized archive has a replacement for it
	Doctor   *doctor.Report
	Map      *cpumap.Document
	Topology *topology.Machine
	State    *state.Saved
	Options  *host.NodeOptions
	NRI      []byte // configuration of candor nri, as JSON (ReadNRI)
	Log      []byte // log of candor nri, as text or JSON lines
	// Missing has the reason for each part that could not be read, by the name of the part's file.
	Missing map[string]string
}

// An index is the content of index.json.
type index struct {
	Layout     int               `json:"layout"`
	Candor     string            `json:"candor"`
	Created    string            `json:"created"` // RFC 3339
	Anonymized bool              `json:"anonymized"`
	Replay     string            `json:"replay,omitempty"` // command that replays the containers of the state
	Missing    map[string]string `json:"missing,omitempty"`
}

// Write writes an archive (tar, gzip) with these files:
//
//	index.json     version of the layout, version of candor, missing parts
//	doctor.json    candor doctor -o json
//	map.json       candor map -o json --sample 0
//	topology.json  candor topology -o json, for candor plan --machine
//	plan.jsonl     the containers of the state as operations for candor plan
//	state.json     state of the containers
//	host.json      options of the machine
//	nri.json       configuration of candor nri
//	nri.log        end of the log of candor nri
//
// With anonymize, Write replaces names. A name has the same replacement in all files.
func Write(w io.Writer, c *Contents, anonymize bool) error {
	a := &archive{created: c.Created, names: newNames(anonymize)}
	packed := gzip.NewWriter(w)
	a.tar = tar.NewWriter(packed)
	a.writeAll(c)
	if a.err == nil {
		a.err = a.tar.Close()
	}
	if a.err == nil {
		a.err = packed.Close()
	}
	return a.err
}

// An archive is an open archive. After an error, its methods do nothing.
type archive struct {
	tar     *tar.Writer
	created time.Time
	names   *names
	err     error
}

// maxNRI bounds the configuration of candor nri, in bytes.
const maxNRI = 1 << 20

// ReadNRI returns a configuration of candor nri as JSON. The configuration need not be valid, but it must be YAML with keys of text. The
// error is a single line with the file.
func ReadNRI(file string) ([]byte, error) {
	text, err := fileio.Read(file, maxNRI)
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err = yaml.Unmarshal(text, &v); err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: candor config check has the details", file, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return text, nil
}

// writeAll writes the files. The files with fields come first: from these fields, a.names collects the names to replace in the texts of the
// other files.
func (a *archive) writeAll(c *Contents) {
	a.names.alias(c.Host)
	if c.State != nil {
		a.raw("state.json", c.State.Encode())
		a.write("plan.jsonl", a.planOf(c.State))
	}
	if c.Map != nil {
		a.json("map.json", c.Map)
	}
	if c.Topology != nil {
		a.write("topology.json", a.encoded(c.Topology)) // has no names
	}
	if c.Options != nil {
		a.json("host.json", c.Options)
	}
	if c.NRI != nil {
		a.raw("nri.json", c.NRI)
	}
	if c.Log != nil {
		a.write("nri.log", a.names.log(c.Log))
	}
	if c.Doctor != nil {
		a.write("doctor.json", a.encoded(a.names.doctor(c.Doctor)))
	}
	i := index{Layout: Layout, Candor: c.Candor, Created: c.Created.UTC().Format(time.RFC3339), Anonymized: a.names.isOn, Replay: replay(c), Missing: map[string]string{}}
	for name, reason := range c.Missing {
		i.Missing[name] = a.names.text(reason)
	}
	a.write("index.json", a.encoded(i))
}

// replay returns the command that replays the containers of the state on another machine, in the directory of the archive. Its reserved
// CPUs are all CPUs that the node does not use, for example because of the cpuset of Candor's parent cgroup.
func replay(c *Contents) string {
	if c.Topology == nil || c.State == nil {
		return ""
	}
	var o host.NodeOptions
	if c.Options != nil {
		o = *c.Options
	}
	if c.Map != nil {
		o.Reserved = c.Topology.Online.Minus(c.Map.Usable)
		if !o.UseIsolated {
			o.Reserved = o.Reserved.Minus(c.Topology.Isolated)
		}
	}
	command := "candor plan --machine topology.json"
	if !o.Reserved.IsEmpty() {
		command += " --reserved " + o.Reserved.String()
	}
	if o.MinShared != 0 {
		command += " --min-shared " + hybrid.Milli(o.MinShared).String()
	}
	if o.UseIsolated {
		command += " --use-isolated"
	}
	return command + " --algorithm " + o.Algorithm.String() + " plan.jsonl"
}

// planOf returns the containers of a state as operations for candor plan, in the order of their arrival.
func (a *archive) planOf(s *state.Saved) []byte {
	var lines bytes.Buffer
	for _, g := range s.Grants {
		op := map[string]string{"op": "allocate", "id": a.names.alias(g.ID), "class": g.Class.String(), "policy": g.Policy.String(), "topology": g.Topology.String()}
		if g.Limit != 0 {
			op["cpu"] = g.Limit.String()
		}
		if g.Class == hybrid.Flexible && g.Guarantee != 0 {
			op["request"] = max(g.Guarantee, 0).String() // NoGuarantee is negative
		}
		if err := jsonout.WriteLine(&lines, op); err != nil {
			a.err = err
		}
	}
	return lines.Bytes()
}

// encoded returns a value as indented JSON.
func (a *archive) encoded(v any) []byte {
	var text bytes.Buffer
	if err := jsonout.Write(&text, v); err != nil && a.err == nil {
		a.err = err
	}
	return text.Bytes()
}

// json writes a value after its names were replaced.
func (a *archive) json(name string, v any) { a.raw(name, a.encoded(v)) }

// raw writes JSON after its names were replaced.
func (a *archive) raw(name string, text []byte) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		a.fail(name, err)
		return
	}
	a.write(name, a.encoded(a.names.value("", v)))
}

func (a *archive) fail(name string, err error) {
	if a.err == nil {
		a.err = fmt.Errorf("%s: %w", name, err)
	}
}

// write adds a file.
func (a *archive) write(name string, text []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: strings.Join([]string{Folder, name}, "/"), Mode: 0o644, Size: int64(len(text)), ModTime: a.created, Format: tar.FormatPAX}
	err := a.tar.WriteHeader(header)
	if err == nil {
		_, err = a.tar.Write(text)
	}
	if err != nil {
		a.fail(name, err)
	}
}
