package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Podman reads every file of a directory, so candor's runtimes are in a file of their own.
var Podman = Engine{
	Name:   "podman",
	File:   "/etc/containers/containers.conf.d/candor.conf",
	Then:   "nothing: podman reads it at each start",
	add:    addToPodman,
	has:    hasBlock,
	remove: removeBlock,

	ThenUndo: "nothing: podman reads it at each start",
	defaults: [][]string{{"engine", "runtime"}},
}

// Containerd has all its runtimes in a single file. The RuntimeClasses of Kubernetes refer to these runtimes. (nerdctl needs no
// setup: nerdctl run --runtime candor-runc.)
var Containerd = Engine{
	Name:   "containerd",
	File:   "/etc/containerd/config.toml",
	Then:   "systemctl restart containerd; then a RuntimeClass with the handler candor",
	add:    addToContainerd,
	has:    hasBlock,
	remove: removeBlock,

	ThenUndo: "systemctl restart containerd",
	defaults: [][]string{{"plugins", criPlugin, "containerd", "default_runtime_name"}, {"plugins", criRuntime, "containerd", "default_runtime_name"}},
}

// The names of the plugin that has the runtimes: criPlugin before containerd 2.0, criRuntime since 2.0.
const (
	criPlugin  = "io.containerd.grpc.v1.cri"
	criRuntime = "io.containerd.cri.v1.runtime"
)

// The first and the last line of the text that candor writes into a file.
const (
	begin = "# begin candor: written by candor setup, which removes it with --undo"
	end   = "# end candor"
)

func addToPodman(text []byte, s *Setup) ([]byte, error) {
	var block strings.Builder
	if s.Default {
		fmt.Fprintf(&block, "[engine]\nruntime = %q\n", s.Runtimes[0].Name)
	}
	block.WriteString("[engine.runtimes]\n")
	for _, r := range s.Runtimes {
		fmt.Fprintf(&block, "%q = [%q]\n", r.Name, r.Path)
	}
	return withBlock(text, block.String())
}

func addToContainerd(text []byte, s *Setup) ([]byte, error) {
	if s.Default {
		return nil, errors.New("containerd has no setting for the default runtime here: for Kubernetes, use candor nri, which sees every container, or a RuntimeClass")
	}
	var head struct {
		Version int
		Plugins map[string]any
	}
	if err := toml.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("not TOML: %w", err)
	}
	plugin := map[int]string{2: criPlugin, 3: criRuntime, 4: criRuntime}[head.Version]
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("the file is missing or empty: create it with containerd config default")
	}
	if plugin == "" {
		return nil, fmt.Errorf("version %d: must be 2, 3 or 4", head.Version)
	}
	options := optionsOf(table(head.Plugins, plugin, "containerd"))
	var block strings.Builder
	for _, r := range s.Runtimes {
		options["BinaryName"] = r.Path
		lines, err := toml.Marshal(options)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("plugins.%q.containerd.runtimes.%q", plugin, r.Name)
		fmt.Fprintf(&block, "[%s]\nruntime_type = %q\n[%s.options]\n%s", name, runcType, name, lines)
	}
	return withBlock(text, block.String())
}

// runcType is the shim for runtimes with the command line of runc.
const runcType = "io.containerd.runc.v2"

// optionsOf returns the options of the default runtime, or of runc if the default runtime has another shim. Candor's runtimes get
// the same options: they could start no pod if their cgroup driver (SystemdCgroup) differed from the cgroup driver of the default
// runtime.
func optionsOf(containerd map[string]any) map[string]any {
	options := map[string]any{}
	chosen, _ := containerd["default_runtime_name"].(string)
	for _, name := range []string{chosen, "runc"} {
		runtime := table(containerd, "runtimes", name)
		if kind, said := runtime["runtime_type"]; len(runtime) == 0 || said && kind != runcType {
			continue
		}
		for key, value := range table(runtime, "options") {
			switch value.(type) {
			case string, bool, int64:
				options[key] = value
			}
		}
		break
	}
	return options
}

// table returns a nested table; an empty table if it is missing.
func table(t map[string]any, path ...string) map[string]any {
	for _, key := range path {
		t, _ = t[key].(map[string]any)
	}
	return t
}

func hasBlock(text []byte, _ *Setup) (bool, error) { return bytes.Contains(text, []byte(begin)), nil }

// removeBlock removes candor's lines. It needs no record, because begin and end enclose these lines. It returns an error if a runtime
// in the lines is the default, because the engine would then start no container.
func removeBlock(text []byte, _ *record, s *Setup) ([]byte, error) {
	rest, err := withoutBlock(text)
	var all map[string]any
	if err == nil {
		err = toml.Unmarshal(rest, &all)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range s.Engine.defaults {
		above, key := table(all, path[:len(path)-1]...), path[len(path)-1]
		for _, r := range s.Runtimes {
			if _, there := table(above, "runtimes")[r.Name]; above[key] == r.Name && !there {
				return nil, fmt.Errorf("%s is %q, which is to be removed: set another default first", key, r.Name)
			}
		}
	}
	return rest, nil
}

// withBlock appends candor's lines to a file. It first removes candor's lines of an earlier setup.
func withBlock(text []byte, block string) ([]byte, error) {
	rest, err := withoutBlock(text)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 && !bytes.HasSuffix(rest, []byte("\n")) {
		rest = append(rest, '\n')
	}
	out := slices.Concat(rest, []byte(begin+"\n"+block+end+"\n"))
	if err := check(out); err != nil {
		return nil, fmt.Errorf("with candor's runtimes, the file would not be valid TOML (perhaps it has one already): %w", err)
	}
	return out, nil
}

// withoutBlock removes candor's lines from a file.
func withoutBlock(text []byte) ([]byte, error) {
	if err := check(text); err != nil {
		return nil, fmt.Errorf("not TOML: %w", err)
	}
	before, after, found := bytes.Cut(text, []byte(begin))
	if !found {
		return bytes.Clone(text), nil
	}
	_, after, found = bytes.Cut(after, []byte(end))
	if !found {
		return nil, fmt.Errorf("%q without %q", begin, end)
	}
	rest := append(bytes.Clone(before), bytes.TrimPrefix(after, []byte("\n"))...)
	if err := check(rest); err != nil {
		return nil, fmt.Errorf("without candor's lines, the file would not be valid TOML: %w", err)
	}
	return rest, nil
}

// check returns an error if a text is no valid TOML.
func check(text []byte) error {
	var all map[string]any
	return toml.Unmarshal(text, &all)
}
