package nri

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/pelletier/go-toml/v2"

	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/program"
)

// DefaultSocket is the default path of the NRI socket of containerd and CRI-O.
const DefaultSocket = api.DefaultSocketPath

// Names of container runtimes.
const (
	Containerd = "containerd"
	CRIO       = "cri-o"
)

const (
	crioFile   = "/etc/crio/crio.conf"
	crioFolder = "/etc/crio/crio.conf.d"
)

// A Runtime is a container runtime of this node that can have NRI plugins, and the part of its configuration that concerns them.
type Runtime struct {
	Name    string // Containerd or CRIO
	PID     int    // 0: the runtime does not run
	Program string // path of its program in this process's file system
	File    string // main configuration file, in the runtime's file system
	Changed string // configuration file that has changed since the runtime started, or ""
	// Err is the error of reading the configuration, or nil. With an error, the following fields have the values of the files before
	// the error.
	Err error

	Enabled        *bool         // NRI is on or off; nil: the configuration does not say so
	EnabledFile    string        // file with the setting that decides Enabled, or ""
	IsListedOff    bool          // EnabledFile has NRI in disabled_plugins
	IsMisnamed     bool          // EnabledFile has NRI's section under its long name, although File is of version 1: containerd 1.7 ignores it
	HasShortNames  bool          // File is of version 1, in which the section of NRI is plugins.nri
	NoCRI          bool          // the CRI plugin is disabled: NRI plugins see no containers
	NoCRIFile      string        // file with that setting, or ""
	Socket         string        // path of the NRI socket
	PluginDir      string        // directory of the plugins that the runtime starts itself
	NoConnections  bool          // plugins cannot connect to the socket
	RequestTimeout time.Duration // time limit for an answer of a plugin; 0: the default, 2 s
	Required       []string      // plugins without which containerd refuses containers
	SystemdCgroup  bool          // the runtime creates cgroups through systemd
	Endpoint       string        // path of its CRI socket, without unix:// and with /run instead of /var/run

	merged containerdMerge
}

// RequiresPlugin reports whether the runtime refuses new containers while candor nri is away, and returns the configuration file that has
// the setting, or in which the setting belongs.
func (r *Runtime) RequiresPlugin() (isRequired bool, file string) {
	return slices.Contains(r.Required, pluginName), cmp.Or(r.merged.validatorFile, r.File)
}

// A containerdMerge holds the settings that addContainerd merges from several of containerd's files.
type containerdMerge struct {
	validator     validator
	validatorFile string // last file with a setting of the validator, or ""
}

// ReadRuntimes returns the container runtimes that run on this node (see FindRuntimes). If no runtime runs, it returns the installed
// runtimes, whose programs it finds in the usual directories. root is the root directory of the file system, "/".
func ReadRuntimes(root string) (found []Runtime, unclear error) {
	found, unclear = FindRuntimes(root)
	if len(found) > 0 || unclear != nil {
		return found, unclear
	}
	for _, r := range []struct{ name, program string }{{Containerd, "containerd"}, {CRIO, "crio"}} {
		if path := program.Find(root, r.program); path != "" {
			found = append(found, InstalledRuntime(root, r.name, path))
		}
	}
	return found, nil
}

// FindRuntimes returns the container runtimes that run on this node. A process counts only if root of the node runs it from a
// program file containerd or crio, outside of pods and containers. FindRuntimes omits the containerd that Docker starts for
// itself. root is the root directory of the file system, "/". The result unclear is nil, or an error of one line and bounded
// length. It names processes whose program file cannot be read.
func FindRuntimes(root string) (found []Runtime, unclear error) {
	return findProcesses(root, runtimeOf)
}

// runtimeOf returns the container runtime that a process runs, given its directory in procfs, or nil.
func runtimeOf(here *nodeproc.Viewpoint, dir string) (*Runtime, error) {
	id, at, ok := here.Locate(dir)
	if !ok || at.InPod || at.Container != "" || id.Comm != "containerd" && id.Comm != "crio" {
		return nil, nil
	}
	pid, _ := strconv.Atoi(filepath.Base(dir))
	file, err := nodeproc.Program(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the program file of process %d (%s): %w", pid, id.Comm, withoutPath(err))
	}
	words, err := procfs.CommandLine(dir)
	if err != nil || file != id.Comm {
		return nil, nil //nolint:nilerr // the process has ended, or has another program
	}
	began, err := procfs.Began(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // the process has ended
	}
	r := &Runtime{Name: Containerd, PID: pid, Program: filepath.Join(dir, "exe"), Socket: DefaultSocket}
	top := filepath.Join(dir, "root")
	if id.Comm == "crio" {
		r.readCRIO(top, dir, words, began)
		return r, nil
	}
	if r.File, r.Err = configFile(dir, words); r.Err != nil {
		return r, nil //nolint:nilerr // r has the error
	}
	if strings.HasSuffix(r.File, "/containerd/containerd.toml") { // written by dockerd
		return nil, nil
	}
	r.readContainerd(top, began)
	r.setEndpoint(option(words, "", "--address", "-address", "-a", "--a"))
	return r, nil
}

// InstalledRuntime returns a runtime that does not run, with the configuration in its default files. file is the path of its program
// in this process's file system.
func InstalledRuntime(root, name, file string) Runtime {
	r := Runtime{Name: name, Program: file, File: containerdFile, Socket: DefaultSocket}
	never := time.Now().Add(time.Hour) // a runtime that does not run has read no file
	if name == CRIO {
		r.readCRIO(root, "", nil, never)
	} else {
		r.readContainerd(root, never)
	}
	return r
}

// A criSection is the section of containerd's configuration with the OCI runtimes.
type criSection struct {
	Containerd struct {
		Default  string `toml:"default_runtime_name"`
		Runtimes map[string]struct {
			Options map[string]any `toml:"options"`
		} `toml:"runtimes"`
	} `toml:"containerd"`
}

// systemd returns the value of the setting SystemdCgroup of the default runtime, and whether the CRI section sets it.
func (c *criSection) systemd() (value, isSet bool) {
	name := c.Containerd.Default
	if name == "" {
		name = "runc"
	}
	value, isSet = c.Containerd.Runtimes[name].Options["SystemdCgroup"].(bool)
	return value, isSet
}

// A validator is the section of containerd's configuration for NRI's default validator.
type validator struct {
	Enable   *bool    `toml:"enable"`
	Required []string `toml:"required_plugins"`
}

// An nriSection is the section of containerd's configuration for NRI.
type nriSection struct {
	Disable        *bool     `toml:"disable"`
	Socket         string    `toml:"socket_path"`
	PluginDir      string    `toml:"plugin_path"`
	NoConnections  *bool     `toml:"disable_connections"`
	RequestTimeout string    `toml:"plugin_request_timeout"`
	Validator      validator `toml:"default_validator"`
}

// A containerdConfig has the settings of a configuration file of containerd for NRI and for cgroups. containerd 1.7 has the section CRI,
// containerd 2 the section CRIRuntime. In a file of version 1, which is also a file without a version, plugins have the short
// names of ShortNRI and ShortCRI (Decode in services/server/config, containerd 1.7).
type containerdConfig struct {
	Version  int      `toml:"version"`
	Imports  []string `toml:"imports"`
	Disabled []string `toml:"disabled_plugins"`
	GRPC     struct {
		Address string `toml:"address"`
	} `toml:"grpc"`
	Plugins struct {
		NRI        nriSection `toml:"io.containerd.nri.v1.nri"`
		ShortNRI   nriSection `toml:"nri"`
		CRI        criSection `toml:"io.containerd.grpc.v1.cri"`
		ShortCRI   criSection `toml:"cri"`
		CRIRuntime criSection `toml:"io.containerd.cri.v1.runtime"`
	} `toml:"plugins"`
}

// readContainerd reads r.File and its imports. A setting of a later file overrides that of an earlier file, but disabled_plugins of all
// files add up (mergeConfig in cmd/containerd/server/config, containerd 2.4).
func (r *Runtime) readContainerd(top string, began time.Time) {
	r.PluginDir = "/opt/nri/plugins"
	r.setEndpoint("/run/containerd/containerd.sock")
	r.Err = eachContainerdFile(top, r.File, func(name string, text []byte, modified time.Time) ([]string, error) {
		if modified.After(began.Add(slack)) {
			r.Changed = name
		}
		c, err := parseContainerd(text)
		if err != nil {
			return nil, err
		}
		return c.Imports, r.addContainerd(name, &c)
	})
}

func parseContainerd(text []byte) (c containerdConfig, err error) {
	if err := toml.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("cannot parse containerd's TOML: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return c, nil
}

// Names of plugins in containerd's setting disabled_plugins. Files of version 1 have the short names.
var (
	nriPlugins = []string{"nri", "io.containerd.nri.v1.nri"}
	criPlugins = []string{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}
)

// addContainerd adds the settings of a file. name is the path of the file.
func (r *Runtime) addContainerd(name string, c *containerdConfig) error {
	r.addDisabled(name, c.Disabled)
	r.setEndpoint(c.GRPC.Address)
	for _, cri := range []*criSection{&c.Plugins.CRI, &c.Plugins.ShortCRI, &c.Plugins.CRIRuntime} {
		if systemd, isSet := cri.systemd(); isSet {
			r.SystemdCgroup = systemd
		}
	}
	isVersion1 := c.Version <= 1
	if name == r.File {
		r.HasShortNames = isVersion1
	}
	if c.Plugins.NRI.Disable != nil && !r.IsListedOff {
		r.IsMisnamed = r.HasShortNames
	}
	err := r.addNRI(name, &c.Plugins.NRI)
	if err != nil || !isVersion1 {
		return err
	}
	if c.Plugins.ShortNRI.Disable != nil {
		r.IsMisnamed = false
	}
	return r.addNRI(name, &c.Plugins.ShortNRI)
}

// addNRI adds the settings of a file's section for NRI. name is the path of the file.
func (r *Runtime) addNRI(name string, n *nriSection) error {
	if n.Disable != nil && !r.IsListedOff {
		isEnabled := !*n.Disable
		r.Enabled, r.EnabledFile = &isEnabled, name
	}
	r.addValidator(name, &n.Validator)
	if n.NoConnections != nil {
		r.NoConnections = *n.NoConnections
	}
	return r.setNRI(n.Socket, n.PluginDir, "plugin_request_timeout", n.RequestTimeout)
}

// addDisabled adds the setting disabled_plugins of a file. It keeps a plugin off, even if another file enables the plugin. name is
// the path of the file.
func (r *Runtime) addDisabled(name string, plugins []string) {
	has := func(all []string) bool {
		return slices.ContainsFunc(plugins, func(plugin string) bool { return slices.Contains(all, plugin) })
	}
	if has(nriPlugins) {
		r.Enabled, r.EnabledFile, r.IsListedOff = new(bool), name, true
	}
	if has(criPlugins) {
		r.NoCRI, r.NoCRIFile = true, name
	}
}

// addValidator adds a file's settings of NRI's default validator. name is the path of the file.
func (r *Runtime) addValidator(name string, v *validator) {
	m := &r.merged
	if v.Enable == nil && v.Required == nil {
		return
	}
	m.validatorFile = name
	if v.Enable != nil {
		m.validator.Enable = v.Enable
	}
	if v.Required != nil {
		m.validator.Required = v.Required
	}
	r.Required = nil
	if on := m.validator.Enable; on != nil && *on {
		r.Required = m.validator.Required
	}
}

// setEndpoint sets the CRI socket from a path or a URL. It does nothing for "".
func (r *Runtime) setEndpoint(address string) {
	if address != "" {
		r.Endpoint = socketPath(address)
	}
}

// socketPath returns the path in the address of a CRI socket. /var/run is a link to /run.
func socketPath(address string) string {
	path := filepath.Clean(strings.TrimPrefix(strings.TrimPrefix(address, "unix://"), "unix:"))
	if rest, isRun := strings.CutPrefix(path, "/var/run/"); isRun {
		return "/run/" + rest
	}
	return path
}

// setNRI sets the values that a file has. "" means that the file does not have the value. The argument timeout is the name of the
// setting whose value is limit.
func (r *Runtime) setNRI(socket, pluginDir, timeout, limit string) (err error) {
	if socket != "" {
		r.Socket = socket
	}
	if pluginDir != "" {
		r.PluginDir = pluginDir
	}
	if limit != "" {
		if r.RequestTimeout, err = time.ParseDuration(limit); err != nil {
			return fmt.Errorf("%s %.40q: must be a time such as 2s", timeout, limit)
		}
	}
	return nil
}

// A crioConfig has the settings of CRI-O's configuration for NRI and for cgroups.
type crioConfig struct {
	CRIO struct {
		API struct {
			Listen string `toml:"listen"`
		} `toml:"api"`
		Runtime struct {
			CgroupManager string `toml:"cgroup_manager"`
		} `toml:"runtime"`
		NRI struct {
			Enable         *bool  `toml:"enable_nri"`
			Socket         string `toml:"nri_listen"`
			PluginDir      string `toml:"nri_plugin_dir"`
			NoConnections  *bool  `toml:"nri_disable_connections"`
			RequestTimeout string `toml:"nri_plugin_request_timeout"`
		} `toml:"nri"`
	} `toml:"crio"`
}

// readCRIO reads CRI-O's configuration: a file, and then the files of a directory in the order of their names. If the runtime runs, proc is
// its directory in procfs, and words is its command line. Otherwise both are empty.
func (r *Runtime) readCRIO(top, proc string, words []string, began time.Time) {
	r.Name, r.PluginDir, r.SystemdCgroup = CRIO, "/opt/nri/plugins", true
	r.setEndpoint("/run/crio/crio.sock")
	var folder string
	if r.File, r.Err = absIn(proc, option(words, crioFile, "--config", "-c")); r.Err == nil {
		folder, r.Err = absIn(proc, option(words, crioFolder, "--config-dir", "-d"))
	}
	if r.Err != nil {
		return
	}
	names := []string{r.File}
	more, err := filepath.Glob(filepath.Join(top, folder, "*"))
	if err != nil || len(more) > mostFiles {
		r.Err = fmt.Errorf("%s: more than %d files, or a name with special characters", folder, mostFiles)
		return
	}
	for _, name := range more {
		names = append(names, strings.TrimPrefix(name, filepath.Clean(top)))
	}
	for _, name := range names {
		if r.Err = r.readCRIOFile(top, name, began); r.Err != nil {
			return
		}
	}
	r.setEndpoint(option(words, "", "--listen"))
}

func (r *Runtime) readCRIOFile(top, name string, began time.Time) error {
	text, modified, err := readIn(top, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	if modified.After(began.Add(slack)) {
		r.Changed = name
	}
	var c crioConfig
	if err := toml.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: cannot parse CRI-O's TOML: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	n := &c.CRIO.NRI
	if n.Enable != nil {
		r.Enabled, r.EnabledFile = n.Enable, name
	}
	if manager := c.CRIO.Runtime.CgroupManager; manager != "" {
		r.SystemdCgroup = manager == "systemd"
	}
	if n.NoConnections != nil {
		r.NoConnections = *n.NoConnections
	}
	r.setEndpoint(c.CRIO.API.Listen)
	if err := r.setNRI(n.Socket, n.PluginDir, "nri_plugin_request_timeout", n.RequestTimeout); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Agents returns the process IDs of the NRI plugins, candor nri, that root of the node runs outside of pods and containers. The
// result unclear names processes with this name whose program file cannot be read, as in FindRuntimes.
func Agents(root string) (pids []int, unclear error) { return findProcesses(root, agentOf) }

// agentOf returns the process ID if a process is candor nri, given its directory in procfs, or nil.
func agentOf(here *nodeproc.Viewpoint, dir string) (*int, error) {
	id, at, ok := here.Locate(dir)
	if !ok || at.InPod || at.Container != "" || id.Comm != pluginName {
		return nil, nil
	}
	words, err := procfs.CommandLine(dir)
	if err != nil || !slices.Contains(words, "nri") {
		return nil, nil //nolint:nilerr // the process has ended
	}
	pid, _ := strconv.Atoi(filepath.Base(dir))
	file, err := nodeproc.Program(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the program file of process %d (%s): %w", pid, pluginName, withoutPath(err))
	case file != pluginName || pid == os.Getpid():
		return nil, nil
	}
	return &pid, nil
}
