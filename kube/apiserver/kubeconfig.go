package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/internal/fileio"
)

// A kubeconfig is the merged content of one or several files; earlier files take precedence.
type kubeconfig struct {
	current                   string
	contexts, clusters, users map[string]entry
}

// An entry is an entry of a list in a file.
type entry struct {
	of  yaml.Node
	dir string // of the file: paths are meant from there
}

// A file is a kubeconfig file. Unknown fields are ignored, except for the context in use, which must be complete.
type file struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context yaml.Node
	}
	Clusters []struct {
		Name    string
		Cluster yaml.Node
	}
	Users []struct {
		Name string
		User yaml.Node
	}
}

// readKubeconfig reads a context of the files that are named. Of several those that are not there are left out, as kubectl has it.
func readKubeconfig(o Options) (*access, error) {
	k := &kubeconfig{}
	names := filepath.SplitList(o.Kubeconfig)
	read := 0
	for _, name := range names {
		text, err := fileio.Read(name, maxFile)
		if name == "" || errors.Is(err, fs.ErrNotExist) && len(names) > 1 {
			continue
		}
		var dir string
		if err == nil {
			dir, err = filepath.Abs(filepath.Dir(name))
		}
		if err == nil {
			err = k.add(text, dir)
		}
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", name, err)
		}
		read++
	}
	if read == 0 {
		return nil, fmt.Errorf("--kubeconfig %s: no such file", o.Kubeconfig)
	}
	a, err := k.access(o)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return a, nil
}

// add reads a file.
func (k *kubeconfig) add(text []byte, dir string) error {
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return errors.New("it is no kubeconfig in YAML") // the parser's message can contain secrets
	}
	if k.current == "" {
		k.current = f.Current
	}
	var contexts, clusters, users named
	for i := range f.Contexts {
		contexts.add(f.Contexts[i].Name, f.Contexts[i].Context, dir)
	}
	for i := range f.Clusters {
		clusters.add(f.Clusters[i].Name, f.Clusters[i].Cluster, dir)
	}
	for i := range f.Users {
		users.add(f.Users[i].Name, f.Users[i].User, dir)
	}
	for _, list := range []struct {
		what string
		named
		to *map[string]entry
	}{{"context", contexts, &k.contexts}, {"cluster", clusters, &k.clusters}, {"user", users, &k.users}} {
		if list.twice != "" {
			return fmt.Errorf("%s %.60q stands twice", list.what, list.twice)
		}
		for name, e := range *list.to {
			if list.all == nil {
				list.all = map[string]entry{}
			}
			list.all[name] = e
		}
		*list.to = list.all
	}
	return nil
}

// named are the entries of a list, by name.
type named struct {
	all   map[string]entry
	twice string // a repeated name
}

func (n *named) add(name string, of yaml.Node, dir string) {
	if n.all == nil {
		n.all = map[string]entry{}
	}
	if _, is := n.all[name]; is {
		n.twice = name
	}
	n.all[name] = entry{of, dir}
}

// A kubeContext is a cluster and a user of it.
type kubeContext struct {
	Cluster, User, Namespace string
	Extensions               any
}

// access is that of a context.
func (k *kubeconfig) access(o Options) (*access, error) {
	name := o.Context
	if name == "" {
		name = k.current
	}
	if name == "" {
		return nil, errors.New("no current context: use --context NAME, or kubectl config use-context NAME")
	}
	at, ok := k.contexts[name]
	if !ok {
		return nil, fmt.Errorf("no context %.60q", name)
	}
	var context kubeContext
	if err := at.strict(&context); err != nil {
		return nil, fmt.Errorf("context %.60q: %w", name, err)
	}
	a := &access{namespace: context.Namespace}
	if a.namespace == "" {
		a.namespace = "default"
	}
	if err := k.cluster(a, context.Cluster, o.Attended); err != nil {
		return nil, fmt.Errorf("cluster %.60q: %w", context.Cluster, err)
	}
	if err := k.user(a, context.User, o.Attended); err != nil {
		return nil, fmt.Errorf("user %.60q: %w", context.User, err)
	}
	return a, nil
}

// strict reads an entry and refuses unknown fields.
func (e *entry) strict(into any) error {
	if e.of.IsZero() {
		return nil
	}
	text, err := yaml.Marshal(&e.of)
	if err != nil {
		return errors.New("it is not understood")
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is not understood: %s", unknown(err))
	}
	return nil
}

// unknown returns the part of a YAML error that contains no value.
func unknown(err error) string {
	if of, ok := errors.AsType[*yaml.TypeError](err); ok {
		for _, one := range of.Errors {
			if _, field, is := strings.Cut(one, ": field "); is {
				field, _, _ = strings.Cut(field, " ")
				return fmt.Sprintf("unknown field %.60q", field)
			}
		}
	}
	return "a value is not of the kind that it has to be"
}

// content returns the content of a file, or the base64 content in the kubeconfig itself; nil for neither.
func content(dir, file, data string) ([]byte, error) {
	switch {
	case data != "":
		return decode(data)
	case file != "":
		return fileio.Read(from(dir, file), maxFile)
	default:
		return nil, nil
	}
}

// from is a path that is meant from a directory.
func from(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// DefaultKubeconfig returns kubectl's default: $KUBECONFIG, otherwise ~/.kube/config if it exists, otherwise "".
func DefaultKubeconfig() string {
	if files := os.Getenv("KUBECONFIG"); files != "" {
		return files
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	name := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}
