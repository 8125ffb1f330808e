package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// WallTime is the metric of every run: seconds from the start of the program to its end.
var WallTime = Metric{Name: "time"}

// A Metric is a number in the output of a run.
type Metric struct {
	Name           string // as the user specified; default: the pattern
	Pattern        string // JSON path or regular expression, as the user wrote it
	HigherIsBetter bool
	find           func(output []byte) (float64, error)
}

// ErrBadMetric means that a metric is invalid.
var ErrBadMetric = errors.New("bad metric")

// namedMetric matches a metric with a name, such as qps=.rate.
var namedMetric = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]{0,39})=(.*)$`)

// ParseMetric parses the description of a metric. A description that starts with a dot is a JSON path
// (".queries.perSecond", ".runs.0.time"). Any other description is a regular expression in Go's syntax, in which ^
// and $ match at line ends. The number is the text of the first group or, without a group, the whole match. If the pattern
// matches several times, the last match is used. A prefix NAME= sets the name for reports.
func ParseMetric(text string) (Metric, error) {
	m := Metric{Name: text, Pattern: text}
	if parts := namedMetric.FindStringSubmatch(text); parts != nil {
		m.Name, m.Pattern = parts[1], parts[2]
		if strings.HasPrefix(m.Pattern, "(") { // ambiguous: a regular expression that starts with "qps=", or a metric named qps
			return m, fmt.Errorf("%w %q: ambiguous; use %s=%s=%s if the output has \"%s=\" before the number, else add the text before the number", ErrBadMetric, text, m.Name, m.Name, m.Pattern, m.Name)
		}
	}
	text = m.Pattern
	if path, isPath := strings.CutPrefix(text, "."); isPath {
		steps := strings.Split(path, ".")
		if slices.Contains(steps, "") {
			return m, fmt.Errorf("%w %q: empty step in the path; use a path such as .queries.perSecond", ErrBadMetric, text)
		}
		m.find = func(output []byte) (float64, error) { return findByPath(output, steps) }
		return m, nil
	}
	pattern, err := regexp.Compile("(?m)" + text)
	switch {
	case err != nil:
		return m, fmt.Errorf("%w %q: %w", ErrBadMetric, text, err)
	case text == "", pattern.NumSubexp() > 1:
		return m, fmt.Errorf("%w %q: must be a regular expression with one group for the number, such as 'rate: ([0-9.]+)', or a JSON path such as .rate", ErrBadMetric, text)
	}
	m.find = func(output []byte) (float64, error) { return findByPattern(output, pattern) }
	return m, nil
}

// In extracts the number from a program's output.
func (m *Metric) In(output []byte) (float64, error) {
	value, err := m.find(output)
	if err != nil {
		return 0, fmt.Errorf("metric %q: %w", m.Name, err)
	}
	return value, nil
}

func findByPattern(output []byte, pattern *regexp.Regexp) (float64, error) {
	matches := pattern.FindAllSubmatch(output, -1)
	if len(matches) == 0 {
		return 0, errors.New("the output has no match")
	}
	last := matches[len(matches)-1]
	return number(string(last[len(last)-1]))
}

// findByPath searches the last JSON value of the output.
func findByPath(output []byte, steps []string) (float64, error) {
	value, err := lastValue(output)
	if err != nil {
		return 0, err
	}
	for i, step := range steps {
		var next any
		switch at := value.(type) {
		case map[string]any:
			next = at[step]
		case []any:
			if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < len(at) {
				next = at[index]
			}
		}
		if next == nil {
			return 0, fmt.Errorf("the output's JSON has no .%s", strings.Join(steps[:i+1], "."))
		}
		value = next
	}
	switch v := value.(type) {
	case json.Number:
		return number(v.String())
	case string:
		return number(v)
	default:
		return 0, errors.New("not a number")
	}
}

// lastValue returns the last JSON object or list of the output. The program can print other lines before it.
func lastValue(output []byte) (value any, err error) {
	budget := 4*len(output) + 1<<16 // bytes that failed attempts may read, because hostile output could cause an attempt at each bracket
	for rest := output; budget > 0; {
		at := bytes.IndexAny(rest, "{[")
		if at < 0 {
			break
		}
		decoder := json.NewDecoder(bytes.NewReader(rest[at:]))
		decoder.UseNumber()
		var found any
		if err := decoder.Decode(&found); err == nil {
			value, rest = found, rest[at+int(decoder.InputOffset()):]
			continue
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			if value != nil {
				break
			}
			budget -= len(rest)
		} else if bad := new(json.SyntaxError); errors.As(err, &bad) {
			budget -= int(bad.Offset)
		}
		rest = rest[at+1:]
	}
	if value == nil {
		return nil, errors.New("the output has no JSON")
	}
	return value, nil
}

// thousands matches numbers with commas between groups of three digits. Any other comma can be a decimal separator, so
// number refuses it.
var thousands = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)

// number parses a number.
func number(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if thousands.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(value) <= maxValue) {
		return 0, fmt.Errorf("%.40q is not a number", text)
	}
	return value, nil
}
