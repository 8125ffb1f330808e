package nri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// ErrOtherManager means that the kubelet assigns CPUs itself. Two managers would overwrite each other's cpusets.
var ErrOtherManager = errors.New("the kubelet's CPU manager")

const (
	kubeletRoot  = "/var/lib/kubelet" // the default of --root-dir
	kubeletState = "cpu_manager_state"
	noPolicy     = "none" // with this policy, the kubelet does not write cpusets
	endOfFlags   = "--"   // on the command lines of the kubelet and k3s
	largestFile  = 4 << 20
)

// CheckKubelet returns ErrOtherManager if the node's kubelet assigns CPUs itself. A process counts as a kubelet only if the
// node's root user runs it (findKubelets). CheckKubelet first reads the kubelet's state file, because a kubelet does not start
// with a policy that differs from this file. Without the file, it reads the kubelet's flags and configuration. While no kubelet
// runs, it reads the state files in the usual directories (checkStates). root is the root directory of the file system, "/". The
// result unclear is nil, or an error of one line and bounded length. It names files that cannot be read, and processes that only
// resemble a kubelet. Such files and processes do not cause ErrOtherManager.
func CheckKubelet(root string) (unclear, err error) {
	kubelets, unclear := findKubelets(root)
	if len(kubelets) == 0 {
		doubt, err := checkStates(root)
		return errline.Join(unclear, doubt), err
	}
	for _, k := range kubelets {
		policy, from, doubt := k.policy()
		unclear = errline.Join(unclear, doubt)
		if policy != noPolicy {
			return unclear, fmt.Errorf("cannot assign CPUs beside %w: its policy is %q (%s); set cpuManagerPolicy: none, remove %s and restart the kubelet",
				ErrOtherManager, policy, from, filepath.Join(k.dir, kubeletState))
		}
	}
	return unclear, nil
}

// checkStates returns an error if a state file in a usual directory contains a policy other than none, because a kubelet that starts
// later uses this policy. At boot, the kubelet starts after candor nri.
func checkStates(root string) (unclear, err error) {
	for _, dir := range knownRoots {
		k := kubelet{root: root, dir: dir}
		policy, doubt := k.savedPolicy()
		unclear = errline.Join(unclear, doubt)
		if file := filepath.Join(dir, kubeletState); policy != "" && policy != noPolicy {
			return unclear, fmt.Errorf("cannot assign CPUs beside %w: %s names the policy %q, with which a kubelet may start; set cpuManagerPolicy: none and remove %s; if no kubelet is installed, remove this file",
				ErrOtherManager, file, policy, file)
		}
	}
	return unclear, nil
}

// flag returns the value of a flag. As in pflag, the last value counts if there are several. The result is "" if the flag is not given.
func (k *kubelet) flag(name string) (value string) {
	for i, word := range k.words {
		if word == endOfFlags {
			break
		}
		word, isFlag := strings.CutPrefix(word, "--")
		key, v, whole := strings.Cut(word, "=")
		switch {
		case !isFlag || strings.ReplaceAll(key, "_", "-") != name:
		case whole:
			value = v
		case i+1 < len(k.words):
			value = k.words[i+1]
		}
	}
	return value
}

// abs returns a path of the command line as an absolute path within k.root.
func (k *kubelet) abs(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(k.cwd, path)
	}
	return filepath.Clean(path)
}

// policy returns the kubelet's policy and its source: the state file, the flag, or the last configuration file that has it.
func (k *kubelet) policy() (policy, from string, unclear error) {
	policy, unclear = k.savedPolicy()
	if policy != "" {
		return policy, filepath.Join(k.dir, kubeletState), nil
	}
	policy, from, doubt := k.configured()
	return policy, from, errline.Join(unclear, doubt)
}

// savedPolicy returns the policy in the kubelet's state file; "" if the file is missing or cannot be trusted. The file is trusted
// only if no user but root can write it.
func (k *kubelet) savedPolicy() (string, error) {
	file := filepath.Join(k.dir, kubeletState)
	f, err := fileio.OpenInRoot(k.root, file, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var policy string
	text, err := fileio.ReadOpen(f, largestFile)
	if err == nil {
		err = onlyRootWrites(f)
	}
	if err == nil {
		policy, err = parseState(text)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, withoutPath(err))
	}
	return policy, nil
}

// onlyRootWrites returns an error for a file that a user other than root could have written.
func onlyRootWrites(f *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return err
	}
	if int(stat.Uid) != 0 && int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return fmt.Errorf("owner %d, mode %#o: must be writable by root only; use chown root and chmod go-w", stat.Uid, stat.Mode&0o777)
	}
	return nil
}

// configured returns the policy in the command line or the configuration files, or else noPolicy, the kubelet's default.
func (k *kubelet) configured() (policy, from string, unclear error) {
	if policy := k.flag("cpu-manager-policy"); policy != "" {
		policy, err := checkPolicy(policy)
		if err != nil {
			return noPolicy, "", fmt.Errorf("--cpu-manager-policy of process %s: %w", k.pid, err)
		}
		return policy, "--cpu-manager-policy of process " + k.pid, nil
	}
	policy = noPolicy
	files, unclear := k.files()
	for _, file := range files {
		value, err := k.policyIn(file)
		if err != nil {
			unclear = errline.Join(unclear, fmt.Errorf("%s: %w", file, withoutPath(err)))
		} else if value != "" {
			policy, from = value, file
		}
	}
	return policy, from, unclear
}

// files returns the paths of the kubelet's configuration files, in the order in which the kubelet merges them.
func (k *kubelet) files() (files []string, unclear error) {
	if file := k.flag("config"); file != "" {
		files = append(files, k.abs(file))
	}
	dir := k.flag("config-dir")
	if dir == "" {
		return files, nil
	}
	dir = k.abs(dir)
	f, err := fileio.OpenInRoot(k.root, dir, unix.O_DIRECTORY)
	if err != nil {
		return files, err
	}
	defer f.Close()
	top := fmt.Sprintf("/proc/self/fd/%d/", f.Fd())
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".conf" {
			files = append(files, filepath.Join(dir, strings.TrimPrefix(path, top)))
		}
		if err == nil && len(files) > mostFiles {
			err = fmt.Errorf("more than %d files", mostFiles)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, withoutPath(err))
	}
	return files, err
}

// policyIn returns the policy in a configuration file, or "" if the file has none.
func (k *kubelet) policyIn(file string) (string, error) {
	f, err := fileio.OpenInRoot(k.root, file, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := fileio.ReadOpen(f, largestFile)
	if err != nil {
		return "", err
	}
	return parsePolicy(text)
}

// parsePolicy returns the cpuManagerPolicy of a KubeletConfiguration in YAML or JSON; "" if it has none.
func parsePolicy(text []byte) (string, error) {
	var config struct {
		Kind   string  `yaml:"kind"`
		Policy *string `yaml:"cpuManagerPolicy"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if config.Kind != "KubeletConfiguration" {
		return "", fmt.Errorf("kind %.60q: must be KubeletConfiguration", config.Kind)
	}
	if config.Policy == nil || *config.Policy == "" {
		return "", nil
	}
	return checkPolicy(*config.Policy)
}

// parseState returns the policy in a checkpoint of the kubelet's CPU manager. All versions of the format, 1 to 4, have the
// fields policyName and defaultCpuSet at the top (pkg/kubelet/cm/cpumanager/state/checkpoint.go, Kubernetes 1.37).
func parseState(text []byte) (string, error) {
	var state struct {
		Policy *string `json:"policyName"`
		CPUs   *string `json:"defaultCpuSet"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return "", err
	}
	if state.Policy == nil || state.CPUs == nil {
		return "", errors.New("must be a kubelet's cpu_manager_state, with policyName and defaultCpuSet")
	}
	return checkPolicy(*state.Policy)
}

var policyName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)

// checkPolicy returns an error for a word that cannot be the name of a policy. It accepts unknown names, because the policy of a fork
// can assign CPUs too.
func checkPolicy(name string) (string, error) {
	if !policyName.MatchString(name) {
		return "", fmt.Errorf("policy %.60q: must be a name such as none or static", name)
	}
	return name, nil
}
