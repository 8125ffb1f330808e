package nri

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/metrics"
	"github.com/candor-project/candor/spec"
)

// A Config is the administrator's configuration of a node.
type Config struct {
	StateDir    string                   // "": host.DefaultStateDir
	Reserved    *cpuset.Set              // CPUs that no container gets; nil: the value of the machine's options
	MinShared   *hybrid.Milli            // CPU time that sensitive containers never get; nil: see Over
	RepairEvery time.Duration            // interval at which the cgroups are compared with the state
	HeadStart   bool                     // prepare the kernel early for the move of a new container's first process (Host.ExpectMoves)
	Metrics     string                   // address of the metrics server, IP:PORT; "": no server
	WebConfig   string                   // file with TLS and users of the metrics server; "": plain HTTP without a password
	Histogram   string                   // shortest window of the CPU-use histograms, or "none"; "": not configured
	Publish     bool                     // publish the node's report to the API server
	Node        kube.Settings            // defaults for all containers of the node
	Namespaces  map[string]kube.Settings // defaults for the containers of a namespace, by namespace

	// ForbiddenViews has the views that containers do not get, by namespace. The entry "*" is for namespaces without an entry.
	ForbiddenViews map[string][]spec.View
}

// forbiddenViews returns the views that containers in a namespace do not get.
func (c *Config) forbiddenViews(namespace string) []spec.View {
	if views, ok := c.ForbiddenViews[namespace]; ok {
		return views
	}
	return c.ForbiddenViews["*"]
}

// ErrBadConfig means that the configuration is invalid.
var ErrBadConfig = errors.New("bad configuration")

const (
	configVersion  = 1
	maxConfigSize  = 1 << 20 // bytes
	leastMinShared = 500     // default of MinShared in milli-CPU; it leaves CPU time for containers without a limit
	defaultRepair  = 30 * time.Second
)

// DefaultConfig returns the configuration that applies without a configuration file.
func DefaultConfig() *Config {
	return &Config{RepairEvery: defaultRepair, HeadStart: true}
}

// Over returns the machine's options, overridden by the configuration. If neither sets MinShared, it is leastMinShared.
func (c *Config) Over(o host.NodeOptions) host.NodeOptions {
	if c.Reserved != nil {
		o.Reserved = *c.Reserved
	}
	switch {
	case c.MinShared != nil:
		o.MinShared = host.Amount(*c.MinShared)
	case o.MinShared == 0:
		o.MinShared = leastMinShared
	}
	return o
}

// LoadConfig reads a configuration file. An error wraps ErrBadConfig, and is a single line with the file and, for invalid
// content, the line number.
func LoadConfig(file string) (*Config, error) {
	data, err := fileio.Read(file, maxConfigSize)
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%w: %s: %w", ErrBadConfig, file, missing.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	c, err := parseConfig(data)
	var at *lineError
	switch {
	case errors.As(err, &at):
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrBadConfig, file, at.line, at.err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrBadConfig, file, err)
	}
	return c, nil
}

// A lineError is an error in a line of the configuration.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func errorAt(node *yaml.Node, format string, args ...any) error {
	return &lineError{node.Line, fmt.Errorf(format, args...)}
}

// parseConfig reads the text of a configuration.
func parseConfig(data []byte) (*Config, error) {
	doc, err := oneDocument(data)
	if err != nil {
		return nil, err
	}
	c, version := DefaultConfig(), false
	fields := map[string]func(*yaml.Node) error{
		"version":     func(n *yaml.Node) error { version = true; return checkVersion(n) },
		"stateDir":    func(n *yaml.Node) error { return c.setStateDir(n) },
		"repairEvery": func(n *yaml.Node) error { return c.setRepair(n) },
		"headStart":   func(n *yaml.Node) error { return value(&c.HeadStart, n, yesNo) },
		"metrics":     func(n *yaml.Node) error { return value(&c.Metrics, n, metrics.Address) },
		"metricsWebConfig": func(n *yaml.Node) error {
			return value(&c.WebConfig, n, absolute("metricsWebConfig", "/etc/candor/web-config.yml"))
		},
		"publish":         func(n *yaml.Node) error { return value(&c.Publish, n, yesNo) },
		"recordHistogram": func(n *yaml.Node) error { return value(&c.Histogram, n, histogram) },
		"node":            func(n *yaml.Node) error { return c.setNode(n) },
		"defaults":        func(n *yaml.Node) (err error) { c.Node, err = settings(n); return err },
		"namespaces":      func(n *yaml.Node) error { return c.setNamespaces(n) },
		"forbiddenViews":  func(n *yaml.Node) error { return c.setForbiddenViews(n) },
	}
	if err := each(doc.Content[0], fields); err != nil {
		return nil, err
	}
	if !version {
		return nil, errorAt(doc.Content[0], "no version: use version: %d", configVersion)
	}
	return c, nil
}

// oneDocument reads a file with a single YAML document and refuses a second document.
func oneDocument(data []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	from := yaml.NewDecoder(bytes.NewReader(data))
	err := from.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, errors.New("empty file: must have version: 1")
	}
	if err != nil {
		return nil, syntaxError(err)
	}
	switch err := from.Decode(&more); {
	case errors.Is(err, io.EOF):
		return &doc, nil
	case err != nil:
		return nil, syntaxError(err)
	default:
		return nil, errorAt(&more, "second document: must be a single document")
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntaxError extracts the line number from an error of the YAML parser.
func syntaxError(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	var line int
	if _, scanErr := fmt.Sscanf(text, "yaml: line %d:", &line); scanErr != nil {
		return errors.New(text)
	}
	return &lineError{line, errors.New(yamlLine.ReplaceAllString(text, ""))}
}

// each calls, for each key of a mapping, the function of this key in fields. A key without a function is an error.
func each(node *yaml.Node, fields map[string]func(*yaml.Node) error) error {
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	slices.Sort(known)
	return pairs(node, func(key, value *yaml.Node) error {
		set := fields[key.Value]
		if set == nil {
			return errorAt(key, "unknown field %.60q: must be one of %s", key.Value, strings.Join(known, ", "))
		}
		return set(value)
	})
}

// pairs calls the function do for each key and value of a mapping. A duplicate key is an error.
func pairs(node *yaml.Node, do func(key, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return errorAt(node, "must be fields and values, as in version: 1")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if seen[key.Value] {
			return errorAt(key, "%.60q: must appear once", key.Value)
		}
		seen[key.Value] = true
		if err := do(key, node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// text returns the value of a field as text.
func text(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode {
		return "", errorAt(node, "must be a single value, not a list or fields")
	}
	return node.Value, nil
}

// value parses the value of a field with the function read, and stores the result in *to.
func value[T any](to *T, node *yaml.Node, read func(string) (T, error)) error {
	s, err := text(node)
	if err != nil {
		return err
	}
	v, err := read(s)
	if err != nil {
		return errorAt(node, "%w", err)
	}
	*to = v
	return nil
}

func checkVersion(node *yaml.Node) error {
	if s, err := text(node); err != nil || s != fmt.Sprint(configVersion) {
		return errorAt(node, "version %.20q: must be %d", s, configVersion)
	}
	return nil
}

func (c *Config) setStateDir(node *yaml.Node) error {
	return value(&c.StateDir, node, absolute("stateDir", host.DefaultStateDir()))
}

// absolute returns a function that checks the value of a field, which must be an absolute path.
func absolute(field, example string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !filepath.IsAbs(s) {
			return "", fmt.Errorf("%s %.60q: must be an absolute path, such as %s", field, s, example)
		}
		return s, nil
	}
}

// HistogramWords are the accepted values of recordHistogram: the shortest window of the histograms, or none.
var HistogramWords = []string{"none", "10ms", "100ms", "1s"}

func histogram(s string) (string, error) {
	if !slices.Contains(HistogramWords, s) {
		return "", fmt.Errorf("recordHistogram %.40q: must be one of %s", s, strings.Join(HistogramWords, ", "))
	}
	return s, nil
}

func yesNo(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%.40q: must be true or false", s)
	}
	return s == "true", nil
}

func (c *Config) setRepair(node *yaml.Node) error {
	return value(&c.RepairEvery, node, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < time.Second || d > time.Hour {
			return 0, fmt.Errorf("repairEvery %.40q: must be 1s to 1h", s)
		}
		return d, nil
	})
}

func (c *Config) setNode(node *yaml.Node) error {
	return each(node, map[string]func(*yaml.Node) error{
		"reserved": func(n *yaml.Node) error {
			c.Reserved = new(cpuset.Set)
			return value(c.Reserved, n, cpuset.Parse)
		},
		"minShared": func(n *yaml.Node) error {
			c.MinShared = new(hybrid.Milli)
			return value(c.MinShared, n, hybrid.ParseMilli)
		},
	})
}

func (c *Config) setNamespaces(node *yaml.Node) error {
	c.Namespaces = map[string]kube.Settings{}
	return pairs(node, func(key, value *yaml.Node) error {
		s, err := settings(value)
		c.Namespaces[key.Value] = s
		return err
	})
}

func (c *Config) setForbiddenViews(node *yaml.Node) error {
	c.ForbiddenViews = map[string][]spec.View{}
	return pairs(node, func(key, list *yaml.Node) error {
		if list.Kind != yaml.SequenceNode {
			return errorAt(list, "must be a list of views, as in [full+stat]")
		}
		views := []spec.View{}
		for _, item := range list.Content {
			var v spec.View
			if err := value(&v, item, spec.ParseView); err != nil {
				return err
			}
			views = append(views, v)
		}
		if slices.Contains(views, spec.ViewCPU.Avoid(views)) && len(views) > 0 {
			return errorAt(list, "all views are forbidden: must leave one of %s", strings.Join(spec.ViewWords, ", "))
		}
		c.ForbiddenViews[key.Value] = views
		return nil
	})
}

// settings reads the settings of containers. Names and values are the same as in annotations.
func settings(node *yaml.Node) (s kube.Settings, err error) {
	return s, pairs(node, func(key, value *yaml.Node) error {
		v, err := text(value)
		if err == nil {
			if err = s.Set(key.Value, v); err != nil {
				err = errorAt(value, "%w", err)
			}
		}
		return err
	})
}
