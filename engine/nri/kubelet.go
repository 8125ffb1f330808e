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

	"github.com/candor-project/candor/internal/oneline"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/wholefile"
)

// ErrOtherManager is a kubelet that gives out CPUs itself: two managers of the same cpusets would fight.
var ErrOtherManager = errors.New("the kubelet's CPU manager")

const (
	kubeletRoot  = "/var/lib/kubelet" // its --root-dir, unless told
	kubeletState = "cpu_manager_state"
	noPolicy     = "none" // the kubelet leaves CPUs alone
	largestFile  = 4 << 20
)

// CheckKubelet refuses a machine on which a kubelet gives out CPUs itself (ErrOtherManager). It asks all that can say
// so: the command lines of the kubelets that run, their configuration, and the state that their CPU manager keeps. root is the top of
// the file system, "/". What is there and cannot be understood is said in unclear: then the policy is not
// known, and nothing is refused for it.
func CheckKubelet(root string) (unclear, err error) {
	kubelets, unclear := findKubelets(root)
	if len(kubelets) == 0 {
		kubelets = []kubelet{{dir: filepath.Join(root, kubeletRoot), shown: kubeletRoot}}
	}
	for _, k := range kubelets {
		policy, from, doubt := k.policy()
		unclear = oneline.Join(unclear, doubt)
		if policy != noPolicy {
			return unclear, fmt.Errorf("%w has the policy %q (%s): two managers would fight over the containers' CPUs: "+
				"want cpuManagerPolicy: none in its configuration, %s/%s removed, and the kubelet started anew", ErrOtherManager, policy, from, k.shown, kubeletState)
		}
	}
	return unclear, nil
}

// A kubelet is one that runs, or may have run.
type kubelet struct {
	dir   string // its --root-dir, as it is reached from here
	shown string // the same, as the kubelet knows it
	pid   string // "": none runs
	root  string // its file system, as it is reached from here
	cwd   string // its working directory, in that
	words []string
}

// findKubelets returns the kubelets among the processes that root has in /proc.
func findKubelets(root string) (found []kubelet, err error) {
	proc := filepath.Join(root, "proc")
	here, _ := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	entries, err := os.ReadDir(proc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		dir := filepath.Join(proc, entry.Name())
		words, err := procfs.CommandLine(dir)
		if err != nil || len(words) == 0 || !isKubelet(words) {
			continue
		}
		// One in a pid namespace of its own is a node that runs inside this one, such as kind's: other containers.
		if ns, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && ns != here {
			continue
		}
		k := kubelet{pid: entry.Name(), root: filepath.Join(dir, "root"), words: words, shown: kubeletRoot}
		k.cwd, _ = os.Readlink(filepath.Join(dir, "cwd")) // who may not see it may not see its files either
		if dir := k.flag("root-dir"); dir != "" {
			k.shown = k.abs(dir)
		}
		k.dir = filepath.Join(k.root, k.shown)
		found = append(found, k)
	}
	return found, nil
}

// isKubelet tells by a command line: kubelet, or kubelet as a command of a program that has several.
func isKubelet(words []string) bool {
	return filepath.Base(words[0]) == "kubelet" ||
		filepath.Base(words[0]) == "hyperkube" && len(words) > 1 && words[1] == "kubelet"
}

// flag returns the value of a flag as pflag takes it, the last one if there are several; "" without one.
func (k *kubelet) flag(name string) (value string) {
	for i, word := range k.words {
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

// abs is a path as the kubelet means it.
func (k *kubelet) abs(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(k.cwd, path)
	}
	return filepath.Clean(path)
}

// policy returns the kubelet's policy, and what says so. The flag goes before the configuration's files, the last of
// these before the others. The state has the policy with which a kubelet has last begun.
func (k *kubelet) policy() (policy, from string, unclear error) {
	policy, from, unclear = k.configured()
	if policy != noPolicy {
		return policy, from, unclear
	}
	file := filepath.Join(k.dir, kubeletState)
	text, err := wholefile.Read(file, largestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return noPolicy, "", unclear
	}
	if err == nil {
		policy, err = parseState(text)
	}
	if err != nil {
		return noPolicy, "", oneline.Join(unclear, fmt.Errorf("%s: %w", filepath.Join(k.shown, kubeletState), err))
	}
	return policy, filepath.Join(k.shown, kubeletState), unclear
}

// configured is the policy by command line and configuration; none where these do not say.
func (k *kubelet) configured() (policy, from string, unclear error) {
	if policy := k.flag("cpu-manager-policy"); policy != "" {
		return policy, fmt.Sprintf("--cpu-manager-policy of process %s", k.pid), nil
	}
	policy = noPolicy
	files, unclear := k.files()
	for _, file := range files {
		said, err := k.saidIn(file)
		if err != nil {
			unclear = oneline.Join(unclear, fmt.Errorf("%s: %w", file, err))
		} else if said != "" {
			policy, from = said, file
		}
	}
	return policy, from, unclear
}

// files are those of its configuration, in the order in which they are read.
func (k *kubelet) files() (files []string, unclear error) {
	if file := k.flag("config"); file != "" {
		files = append(files, k.abs(file))
	}
	dir := k.flag("config-dir")
	if dir == "" {
		return files, nil
	}
	top := filepath.Join(k.root, k.abs(dir))
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".conf" {
			files = append(files, strings.TrimPrefix(path, k.root))
		}
		return err
	})
	return files, err
}

// saidIn reads one file of the configuration; "" where it does not say.
func (k *kubelet) saidIn(file string) (string, error) {
	text, err := wholefile.Read(filepath.Join(k.root, file), largestFile)
	if err != nil {
		return "", err
	}
	return parsePolicy(text)
}

// parsePolicy reads a KubeletConfiguration, in YAML or JSON: its cpuManagerPolicy, "" without one.
func parsePolicy(text []byte) (string, error) {
	var config struct {
		Kind   string  `yaml:"kind"`
		Policy *string `yaml:"cpuManagerPolicy"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if config.Kind != "KubeletConfiguration" {
		return "", fmt.Errorf("kind %.60q: want KubeletConfiguration", config.Kind)
	}
	if config.Policy == nil || *config.Policy == "" {
		return "", nil
	}
	return checkPolicy(*config.Policy)
}

// parseState reads the checkpoint of the kubelet's CPU manager, of any of its versions: all have the policy's
// name at the top.
func parseState(text []byte) (string, error) {
	var state struct {
		Policy *string `json:"policyName"`
		CPUs   *string `json:"defaultCpuSet"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return "", err
	}
	if state.Policy == nil || state.CPUs == nil {
		return "", errors.New("want a kubelet's cpu_manager_state, with policyName and defaultCpuSet")
	}
	return checkPolicy(*state.Policy)
}

var policyName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)

// checkPolicy refuses what cannot be the name of a policy. Not only the known ones are taken: a fork's may give out CPUs, too.
func checkPolicy(name string) (string, error) {
	if !policyName.MatchString(name) {
		return "", fmt.Errorf("policy %.60q: want a name such as none or static", name)
	}
	return name, nil
}
