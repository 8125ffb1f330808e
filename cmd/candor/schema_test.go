package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/bandwidth/advise"
	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/load"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/simreport"
	"github.com/candor-project/candor/cmd/candor/internal/top"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/fleet/packing"
	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/trace"
	"github.com/candor-project/candor/view"
)

// A document is a kind of JSON value that a command writes.
type document struct {
	name  string // variant of the command, such as --probe; "": the only one
	value any    // zero value of the type
}

// jsonCommands are the commands with -o json and the types of their output.
var jsonCommands = map[string][]document{
	"advise":       {{"", advise.Document{}}},
	"audit":        {{"", []auditRow{}}},
	"classify":     {{"", experiment.Class{}}, {"--probe", probeReport{}}},
	"compare":      {{"", experiment.ReportDocument{}}},
	"doctor":       {{"", doctor.Report{}}},
	"inspect":      {{"", inspection{}}},
	"isolate":      {{"", experiment.IsolationDocument{}}},
	"ledger show":  {{"", ledgerDocument{}}},
	"ledger watch": {{"", ledgerDocument{}}},
	"load":         {{"", load.Document{}}},
	"map":          {{"", cpumap.Document{}}},
	"place":        {{"", packing.Document{}}},
	"plan":         {{"", planio.Result{}}},
	"ps":           {{"", []grantRow{}}},
	"report":       {{"compare", experiment.ReportDocument{}}, {"isolate", experiment.IsolationDocument{}}, {"several reports", experiment.Programs{}}},
	"setup":        {{"", []setupRow{}}},
	"setup host":   {{"", setup.Result{}}},
	"setup node":   {{"", changeReport{}}},
	"simulate":     {{"", simreport.Report{}}},
	"top":          {{"", top.Document{}}},
	"topology":     {{"", topology.Document{}}},
	"trace info":   {{"", trace.Summary{}}},
	"uninstall":    {{"", changeReport{}}},
	"usage":        {{"", timescale.Document{}}},
	"version":      {{"", versionReport{}}},
	"view":         {{"", view.Report{}}},
}

// TestSchema compares the fields of each command's JSON, as the Go types declare them, with testdata/schema. A renamed, removed or added
// field changes a file there, for the review and for CHANGELOG.md. go test -update rewrites the files.
func TestSchema(t *testing.T) {
	for command, documents := range jsonCommands {
		var text strings.Builder
		for _, d := range documents {
			fmt.Fprintln(&text, strings.TrimSpace("# candor "+command+" -o json "+d.name))
			for _, f := range schemaOf(reflect.TypeOf(d.value)) {
				fmt.Fprintln(&text, f)
			}
		}
		golden.Check(t, schemaFile(command), text.String())
	}
	files, err := filepath.Glob(schemaFile("*"))
	if err != nil || len(files) != len(jsonCommands) {
		t.Errorf("%v, %d files in testdata/schema, want one for each of %d commands: %q", err, len(files), len(jsonCommands), files)
	}
}

func schemaFile(command string) string {
	return filepath.Join("testdata", "schema", strings.ReplaceAll(command, " ", "-")+".txt")
}

// TestSchemaCommands: each command whose output format can be json is in jsonCommands.
func TestSchemaCommands(t *testing.T) {
	root, _ := newRoot()
	var found []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if f := c.LocalFlags().Lookup("output"); f != nil {
			flag, isWord := f.Value.(textFlag)
			if of, isChoice := flag.word.(*choice); isWord && isChoice && slices.Contains(of.of, "json") {
				found = append(found, strings.TrimPrefix(c.CommandPath(), "candor "))
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, command := range found {
		if jsonCommands[command] == nil {
			t.Errorf("candor %s -o json has no schema: add its type to jsonCommands", command)
		}
	}
	for command := range jsonCommands {
		if !slices.Contains(found, command) {
			t.Errorf("jsonCommands has %q, which is no command with -o json", command)
		}
	}
}

// unit matches the end of a number's name: its unit. A share is from 0 to 1. A rate is per unit of time.
var unit = regexp.MustCompile(`(Milli|Seconds|Bytes|[sS]hare|Percent|KHz|Cores|PerHour|[pP]erSecond|[sS]econds|CPUs)$`)

// unitless are the names of numbers without a unit: numbers of things, IDs and factors.
var unitless = map[string]string{
	"CPUs and other parts of a machine, and their kernel IDs": "cpu cpus socket sockets numaNode numaNodes l3Domains core cores coresOfLargest",
	"processes":            "pid pids processes threads serves maxThreads",
	"numbers of things":    "count containers nodes nodesUsed nodesBound moves hops phases errors missedReadings bursts periods throttledPeriods windows sees seesFiles pairs failed place asked applications",
	"factors and weights":  "weight peakToMean burstiness ratio low high speed alone shared overcommit",
	"simulated containers": "placed refusedView refusedCapacity refusedCapacitySensitive resubmitted submitted submittedSensitive events machines workloads seed",
	"symbols of the paper": "s r sBound rBound",
	"cells of a matrix":    "matrix",
	"resources of a file":  "use capacity",
	"versions of files":    "reads writes",
	"traces":               "all new start removals updates atOnce jobs running memory p1 p5 p10 p25 p50 p75 p90 p95 p99 max mean ends slots span",
}

// TestSchemaUnits: the name of a number ends in its unit. Files that candor reads keep their names: a machine (topology) and the
// reports of compare and isolate, whose runs are also in the output of classify.
func TestSchemaUnits(t *testing.T) {
	var known []string
	for _, names := range unitless {
		known = append(known, strings.Fields(names)...)
	}
	for command, documents := range jsonCommands {
		if slices.Contains([]string{"topology", "compare", "isolate", "report"}, command) {
			continue
		}
		for _, d := range documents {
			for _, f := range schemaOf(reflect.TypeOf(d.value)) {
				name := nameOf(f.path)
				isRun := strings.Contains(f.path, "runs[].")
				if f.isNumber && !isRun && !unit.MatchString(name) && !slices.Contains(known, name) {
					t.Errorf("candor %s: the number %s has no unit in its name", command, f.path)
				}
			}
		}
	}
}

// nameOf returns the last name of a path: "windows" of "groups[].windows[]", and of a map the name of the map.
func nameOf(path string) string {
	names := strings.Split(strings.NewReplacer("[]", "", ".*", "").Replace(path), ".")
	return names[len(names)-1]
}

// A schemaField is a field of a JSON value.
type schemaField struct {
	path     string // elements of a list have the suffix [], values of a map the name *
	kind     string // its Go type, or "object"
	options  string // such as omitempty
	isNumber bool
}

func (f schemaField) String() string {
	return strings.TrimSpace(strings.TrimSpace(f.path+" "+f.kind) + " " + f.options)
}

// schemaOf returns the fields of a type's JSON form.
func schemaOf(t reflect.Type) []schemaField { return addSchema(nil, t, "", "") }

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// hasOwnForm reports whether a type encodes itself, so that its fields are not those of its JSON form.
func hasOwnForm(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{marshaler, textMarshaler}, func(m reflect.Type) bool {
		return t.Implements(m) || reflect.PointerTo(t).Implements(m)
	})
}

func addSchema(list []schemaField, t reflect.Type, path, options string) []schemaField {
	if t.Kind() == reflect.Pointer {
		return addSchema(list, t.Elem(), path, strings.TrimSpace("pointer "+options))
	}
	if hasOwnForm(t) {
		return append(list, schemaField{path: path, kind: t.String(), options: options})
	}
	switch t.Kind() {
	case reflect.Struct:
		list = append(list, schemaField{path: path, kind: "object", options: options})
		for _, f := range reflect.VisibleFields(t) {
			list = addFieldSchema(list, f, path)
		}
		return list
	case reflect.Slice, reflect.Array:
		list = append(list, schemaField{path: path, kind: "array", options: options})
		return addSchema(list, t.Elem(), path+"[]", "")
	case reflect.Map:
		list = append(list, schemaField{path: path, kind: "map", options: options})
		return addSchema(list, t.Elem(), path+".*", "")
	default:
		isNumber := t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
		return append(list, schemaField{path, t.String(), options, isNumber})
	}
}

// addFieldSchema adds the field of a struct. reflect.VisibleFields lists the fields of embedded structs too.
func addFieldSchema(list []schemaField, f reflect.StructField, path string) []schemaField {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	isEmbedded := f.Anonymous && name == ""
	if isEmbedded || name == "-" || !f.IsExported() {
		return list
	}
	if name == "" {
		name = f.Name
	}
	return addSchema(list, f.Type, strings.TrimPrefix(path+"."+name, "."), options)
}

// TestSchemaOf: the fields of embedded structs, pointers, lists and maps.
func TestSchemaOf(t *testing.T) {
	type inner struct {
		Use float64 `json:"useMilli,omitempty"`
	}
	type outer struct {
		inner
		Name   string            `json:"name"`
		Limits map[string]*inner `json:"limits"`
		List   []int             `json:"list,omitzero"`
		hidden int
	}
	want := `object
useMilli float64 omitempty
name string
limits map
limits.* object pointer
limits.*.useMilli float64 omitempty
list array omitzero
list[] int
`
	var got strings.Builder
	for _, f := range schemaOf(reflect.TypeFor[outer]()) {
		fmt.Fprintln(&got, f)
	}
	if got.String() != want {
		t.Errorf("%+v: got\n%s\nwant\n%s", outer{hidden: 1}, &got, want)
	}
}
