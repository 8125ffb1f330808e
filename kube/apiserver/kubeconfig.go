package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/internal/fileio"
)

// A kubeconfig is the merged content of all kubeconfig files. If several files have an entry with the same name, the entry of the
// first file is used.
type kubeconfig struct {
	current                   string
	contexts, clusters, users map[string]entry
}

// An entry is a context, cluster or user in a kubeconfig file. It is decoded only if it is used.
type entry struct {
	node yaml.Node
	dir  string // of the file: relative paths start here
}

// A file is the parsed content of a kubeconfig file. Unknown fields are errors only in the entries that are used (see entry.strict).
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

// readKubeconfig reads the current context from the kubeconfig files. Like kubectl, it skips missing files if several files are
// named.
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
	a, err := k.access()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return a, nil
}

// add parses a kubeconfig file, and merges its entries. Entries of earlier files take precedence.
func (k *kubeconfig) add(text []byte, dir string) error {
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return errors.New("must be a kubeconfig in YAML") // the parser's message can contain secrets
	}
	if k.current == "" {
		k.current = f.Current
	}
	var contexts, clusters, users namedEntries
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
		namedEntries
		to *map[string]entry
	}{{"context", contexts, &k.contexts}, {"cluster", clusters, &k.clusters}, {"user", users, &k.users}} {
		if list.repeated != "" {
			return fmt.Errorf("%s %.60q: must appear once", list.what, list.repeated)
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

// namedEntries maps the names in a list of a kubeconfig file to the entries.
type namedEntries struct {
	all      map[string]entry
	repeated string // a name that the list contains twice, or ""
}

func (n *namedEntries) add(name string, of yaml.Node, dir string) {
	if n.all == nil {
		n.all = map[string]entry{}
	}
	if _, is := n.all[name]; is {
		n.repeated = name
	}
	n.all[name] = entry{of, dir}
}

// A kubeContext is a context in a kubeconfig: the names of a cluster and a user, and a namespace.
type kubeContext struct {
	Cluster, User, Namespace string
	Extensions               any
}

// access returns the access of the current context.
func (k *kubeconfig) access() (*access, error) {
	name := k.current
	if name == "" {
		return nil, errors.New("no current context: use kubectl config use-context NAME")
	}
	at, ok := k.contexts[name]
	if !ok {
		return nil, fmt.Errorf("no context %.60q", name)
	}
	var context kubeContext
	if err := at.strict(&context); err != nil {
		return nil, fmt.Errorf("context %.60q: %w", name, err)
	}
	a := &access{}
	if err := k.readCluster(a, context.Cluster); err != nil {
		return nil, fmt.Errorf("cluster %.60q: %w", context.Cluster, err)
	}
	if err := k.readUser(a, context.User); err != nil {
		return nil, fmt.Errorf("user %.60q: %w", context.User, err)
	}
	return a, nil
}

// strict decodes an entry. Unknown fields are errors, because an ignored field could weaken security.
func (e *entry) strict(into any) error {
	if e.node.IsZero() {
		return nil
	}
	text, err := yaml.Marshal(&e.node)
	if err != nil {
		return errors.New("cannot parse the entry")
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("cannot parse the entry: %s", unknownField(err))
	}
	return nil
}

// unknownField describes a YAML error without values, which can be secret: only the name of an unknown field is shown.
func unknownField(err error) string {
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

// content returns the decoded base64 data if it is not empty, otherwise the content of a file, or nil without a file. A relative file name
// starts at dir.
func content(dir, file, data string) ([]byte, error) {
	switch {
	case data != "":
		return decode(data)
	case file != "":
		return fileio.Read(absolute(dir, file), maxFile)
	default:
		return nil, nil
	}
}

// absolute returns the path of a file. A relative name starts at dir.
func absolute(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}
