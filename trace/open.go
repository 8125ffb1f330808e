package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSpec is the error of Open for an invalid spec. Other errors of Open are about the named files.
var ErrSpec = errors.New("bad trace spec")

// A spec is the parsed argument of Open.
type spec struct {
	text    string
	path    string
	options map[string]string
	submits bool // start=submitted
}

// specForms lists the accepted specs for error messages.
const specForms = "google2011:DIR, openb:DIR, csv:FILE, kubectl:DIR, synthetic[:machines=N,days=D,seed=S], semi-real:DIR, azure:FILE,machines=N,cores=N,memory=GIB or a FILE.ctrace"

// A form describes a form of a spec: the function that opens such a trace, and the options that the spec may contain besides a path.
type form struct {
	open    func(spec, Options) (Reader, error)
	options []string
	noPath  bool
}

var forms = map[string]form{
	"google2011": {openGoogle, []string{"start"}, false},
	"openb":      {openOpenb, []string{"pods", "start"}, false},
	"csv":        {openPlain, nil, false},
	"kubectl":    {openKubectl, []string{"start"}, false},
	"synthetic":  {openSynthetic, []string{"machines", "days", "seed"}, true},
	"semi-real":  {openSemiReal, []string{"seed"}, false},
	"azure":      {openAzure, []string{"machines", "cores", "memory"}, false},
}

// Open opens the trace for a spec, which has one of these forms:
//
//	google2011:DIR[,start=submitted]           Google ClusterData 2011
//	openb:DIR[,pods=cpu300][,start=submitted]  Alibaba's GPU cluster of 2023
//	csv:FILE                                   the CSV format of docs/reference/trace-formats.md
//	kubectl:DIR[,start=submitted]              nodes.json and pods.json
//	synthetic[:machines=N,days=D,seed=S]       the generator
//	semi-real:DIR[,seed=S]                     a month, extended from the available parts of google2011
//	azure:FILE,machines=N,cores=N,memory=GIB   Azure's virtual machines of 2017, on N machines of this size
//	FILE.ctrace                                a compact file
//
// By default, the Submit event of a container has the time at which the container started in the recorded cluster. With start=submitted,
// it has the time of the submission, and also containers that never started have an event. A path must not contain commas.
func Open(text string, o Options) (Reader, error) {
	name, rest, _ := strings.Cut(text, ":")
	f, known := forms[name]
	switch {
	case !known && strings.HasSuffix(text, ".ctrace"):
		return openCompact(text)
	case !known:
		return nil, fmt.Errorf("%w %q: must be %s", ErrSpec, text, specForms)
	}
	s, err := f.parse(text, rest)
	if err != nil {
		return nil, err
	}
	return f.open(s, o)
}

// parse parses the part of a spec after the form's name: a path, and then options.
func (f form) parse(text, rest string) (spec, error) {
	s := spec{text: text, options: map[string]string{}}
	words := strings.Split(rest, ",")
	if !f.noPath {
		if words[0] == "" {
			return s, fmt.Errorf("%w %q: no path: must be %s", ErrSpec, text, specForms)
		}
		s.path, words = words[0], words[1:]
	}
	for _, word := range words {
		if word == "" && rest == "" {
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(f.options, key) {
			return s, fmt.Errorf("%w %q: option %q: must be %s", ErrSpec, text, word, f.optionList())
		}
		s.options[key] = value
	}
	return s, s.parseStart()
}

// optionList lists the options for an error message.
func (f form) optionList() string {
	if len(f.options) == 0 {
		return "none"
	}
	return strings.Join(f.options, "=…, ") + "=…"
}

// parseStart parses the option start, which several forms accept.
func (s *spec) parseStart() error {
	switch value, given := s.options["start"]; {
	case !given || value == "scheduled":
	case value == "submitted":
		s.submits = true
	default:
		return fmt.Errorf("%w %q: start %q: must be scheduled or submitted", ErrSpec, s.text, value)
	}
	return nil
}
