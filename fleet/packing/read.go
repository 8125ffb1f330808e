package packing

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/hybrid"
)

// Limits of an input file.
const (
	MaxItems     = 10_000
	MaxResources = 16
	MaxAmount    = 100_000_000_000_000 // largest amount of a resource besides CPU
)

// A SyntaxError is an error in a line of an input file.
type SyntaxError struct {
	File string
	Line int
	Err  error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *SyntaxError) Unwrap() error { return e.Err }

// Read reads a list of applications or nodes: JSON if the first character is "[", otherwise CSV. The file name is for error messages.
// Errors are of type *SyntaxError, except for the errors of the reader.
//
// CSV starts with a heading: "name", "cpu" and any further resources, in any order. JSON is a list of objects with these names as
// keys; all objects have the same keys. CPU is in Kubernetes' notation, such as 1500m or 1.5. Other amounts are whole numbers of
// at least 0.
func Read(r io.Reader, file string) (List, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return List{}, err
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		return readJSON(text, file)
	}
	return readCSV(text, file)
}

func readCSV(text []byte, file string) (List, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.ReuseRecord = true
	wrong := func(err error) (List, error) {
		if syntax := (*csv.ParseError)(nil); errors.As(err, &syntax) {
			return List{}, &SyntaxError{file, syntax.Line, syntax.Err}
		}
		line, _ := r.FieldPos(0)
		return List{}, &SyntaxError{file, line, err}
	}
	heading, err := r.Read()
	if err == io.EOF {
		return List{}, &SyntaxError{file, 1, errors.New(`empty: must start with a heading such as "name,cpu,memory"`)}
	} else if err != nil {
		return wrong(err)
	}
	b, err := newBuilder(heading)
	if err != nil {
		return wrong(err)
	}
	for {
		record, err := r.Read()
		if err == io.EOF {
			return b.finish(file, 1)
		}
		if err == nil {
			err = b.add(record)
		}
		if err != nil {
			return wrong(err)
		}
	}
}

// A builder builds a list from rows of fields.
type builder struct {
	list    List
	heading []string
	names   map[string]bool
}

// newBuilder checks a heading and returns a builder for its rows.
func newBuilder(heading []string) (*builder, error) {
	b := &builder{heading: slices.Clone(heading), names: map[string]bool{}}
	b.list.Resources = []string{CPU}
	for i, name := range b.heading {
		switch {
		case name == "" || strings.TrimSpace(name) != name:
			return nil, fmt.Errorf("heading %q: must be the name of a resource", name)
		case slices.Contains(b.heading[:i], name):
			return nil, fmt.Errorf("heading: %q twice", name)
		case name != "name" && name != CPU:
			b.list.Resources = append(b.list.Resources, name)
		}
	}
	if !slices.Contains(b.heading, "name") || !slices.Contains(b.heading, CPU) {
		return nil, fmt.Errorf(`heading %q: must be "name", "cpu" and any further resources`, joinNames(b.heading))
	}
	if len(b.list.Resources) > MaxResources {
		return nil, fmt.Errorf("%d resources: the maximum is %d", len(b.list.Resources), MaxResources)
	}
	return b, nil
}

// add adds a row, with its fields in the order of the heading.
func (b *builder) add(fields []string) error {
	t := Item{Amounts: make([]int64, len(b.list.Resources))}
	for i, name := range b.heading {
		var err error
		switch field := fields[i]; name {
		case "name":
			t.Name, err = strings.Clone(field), b.checkName(field)
		default:
			t.Amounts[slices.Index(b.list.Resources, name)], err = parseAmount(name, field)
		}
		if err != nil {
			return err
		}
	}
	if len(b.list.Items) == MaxItems {
		return fmt.Errorf("more than %d rows", MaxItems)
	}
	b.names[t.Name] = true
	b.list.Items = append(b.list.Items, t)
	return nil
}

func (b *builder) checkName(name string) error {
	switch {
	case name == "" || strings.TrimSpace(name) != name || strings.ContainsFunc(name, isControl) || len(name) > 200:
		return fmt.Errorf("name %.40q: must be up to 200 bytes without surrounding space", name)
	case b.names[name]:
		return fmt.Errorf("name %q: there is one already", name)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// parseAmount parses an amount of a resource.
func parseAmount(resource, text string) (int64, error) {
	if resource == CPU {
		milli, err := hybrid.ParseMilli(text)
		return int64(milli), err
	}
	amount, err := strconv.ParseUint(text, 10, 64)
	if err != nil || amount > MaxAmount {
		return 0, fmt.Errorf("%s %.40q: must be a whole number from 0 to %d", resource, text, MaxAmount)
	}
	return int64(amount), nil
}

// finish returns the list, or an error if the list is empty.
func (b *builder) finish(file string, line int) (List, error) {
	if len(b.list.Items) == 0 {
		return List{}, &SyntaxError{file, line, errors.New("no rows after the heading")}
	}
	return b.list, nil
}
