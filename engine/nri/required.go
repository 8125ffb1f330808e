package nri

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/program"
)

// containerd can refuse containers while the plugin is not connected, if NRI's default validator (since containerd 2.2) requires the
// plugin. Otherwise these containers start without a plan.

const (
	containerdFile = "/etc/containerd/config.toml" // default of containerd's command line
	validatorLines = `[plugins.'io.containerd.nri.v1.nri'.default_validator] enable = true, required_plugins = ["` + pluginName + `"]`
	mostFiles      = 100
)

// A runtimeProcess is the runtime at the other end of the connection.
type runtimeProcess struct {
	pid           int // 0: the process is in another PID namespace
	pidfd         int // 0: none
	name, version string
}

// logRequired logs whether the runtime refuses containers while the plugin is not connected. root is the root of the file system.
func (r *runtimeProcess) logRequired(log *slog.Logger, root string) {
	const subject = "new containers without a connected plugin"
	active, file, err := r.required(root)
	switch {
	case err != nil:
		log.Warn(subject+" may start on all CPUs", "required_plugins", "not known", "reason", err)
	case active:
		log.Info(subject+" are refused", "required_plugins", "active", "file", file)
	default:
		log.Warn(subject+" start on all CPUs", "required_plugins", "not active", "file", file, "add to refuse them", validatorLines)
	}
}

// required reads the configuration with which containerd started. It reports whether containerd requires the plugin, and returns the
// file that has, or can get, the setting. An error explains why the answer is unknown.
func (r *runtimeProcess) required(root string) (active bool, file string, err error) {
	if r.name != "containerd" {
		return false, "", fmt.Errorf("the runtime is %s; see its manual for NRI's default validator (CRI-O 1.34 has none)", r.name)
	}
	if !r.hasValidator() {
		return false, "", fmt.Errorf("containerd %s has no required_plugins; use %v or newer", r.version, requiredSince)
	}
	if r.pid <= 0 {
		return false, "", errors.New("cannot see the runtime's process; run candor nri in the host's pid namespace")
	}
	proc := filepath.Join(root, "proc", fmt.Sprint(r.pid))
	words, err := procfs.CommandLine(proc)
	if err != nil {
		return false, "", err
	}
	if file, err = configFile(proc, words); err != nil {
		return false, "", err
	}
	began, err := procfs.Began(proc)
	if err != nil {
		return false, "", err
	}
	in := Runtime{File: file}
	in.readContainerd(filepath.Join(proc, "root"), began)
	switch {
	case in.Err != nil:
		return false, "", in.Err
	case in.Changed != "": // the configuration in effect is unknown
		return false, "", fmt.Errorf("%s: has changed since containerd started; restart containerd", in.Changed)
	}
	active, file = in.RequiresPlugin()
	return active, file, nil
}

// hasValidator reports whether the runtime is known to have the default validator.
func (r *runtimeProcess) hasValidator() bool {
	v, _ := program.ParseVersion(r.version)
	return v != program.Version{} && Release{Containerd, v}.HasRequired()
}

// configFile returns the configuration file in containerd's command line.
func configFile(proc string, words []string) (string, error) {
	return absIn(proc, option(words, containerdFile, "--config", "-config", "-c", "--c"))
}

// option returns the last value of an option in a command line. The option can have several names. If it is missing, the result
// is the argument value.
func option(words []string, value string, names ...string) string {
	for i, word := range words {
		flag, given, whole := strings.Cut(word, "=")
		switch {
		case !slices.Contains(names, flag):
		case whole:
			value = given
		case i+1 < len(words):
			value = words[i+1]
		}
	}
	return value
}

// absIn returns a path of a process's command line as an absolute path, given the process's directory in procfs.
func absIn(proc, file string) (string, error) {
	if filepath.IsAbs(file) {
		return file, nil
	}
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	return filepath.Join(cwd, file), err
}

// eachContainerdFile calls visit for a configuration file of containerd and for its imports, in containerd's order. top is the root of
// containerd's file system. visit returns the imports of the file. If the default file is missing, the result is nil without a visit,
// because containerd then uses its defaults.
func eachContainerdFile(top, file string, visit func(name string, text []byte, modified time.Time) (more []string, err error)) error {
	done := map[string]bool{}
	for pending := []string{file}; len(pending) > 0; pending = pending[1:] {
		name := pending[0]
		if done[name] {
			continue
		}
		if done[name] = true; len(done) > mostFiles {
			return fmt.Errorf("%s imports more than %d files", file, mostFiles)
		}
		text, modified, err := readIn(top, name)
		if errors.Is(err, fs.ErrNotExist) && name == containerdFile {
			return nil
		}
		var patterns []string
		if err == nil {
			patterns, err = visit(name, text, modified)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, withoutPath(err))
		}
		more, err := imports(top, name, patterns)
		if err != nil {
			return err
		}
		pending = append(pending, more...)
	}
	return nil
}

// slack is the precision of the times of the kernel and of file systems.
const slack = time.Second

// readIn reads a file in the file system of containerd.
func readIn(top, name string) (text []byte, modified time.Time, err error) {
	f, err := fileio.OpenInRoot(top, name, 0)
	if err != nil {
		return nil, modified, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, modified, err
	}
	text, err = fileio.ReadOpen(f, largestFile)
	return text, info.ModTime(), err
}

// withoutPath removes the path from an error, because this process opens the file under another path than the user knows.
func withoutPath(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// imports returns the files that a file imports, in containerd's order.
func imports(top, file string, patterns []string) (files []string, err error) {
	for _, pattern := range patterns {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(file), pattern)
		}
		pattern = filepath.Clean(pattern)
		if !strings.Contains(pattern, "*") {
			files = append(files, pattern)
			continue
		}
		matches, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			return nil, fmt.Errorf("%s: imports %.100q: %w", file, pattern, err)
		}
		for _, match := range matches {
			files = append(files, strings.TrimPrefix(match, top))
		}
	}
	return files, nil
}
