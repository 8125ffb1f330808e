package nri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// KubeletSettings are the settings of a kubelet that concern Candor.
type KubeletSettings struct {
	PID          string       // "": no kubelet runs; the settings are in the files of its directory
	Dir          string       // the kubelet's directory (--root-dir)
	Policy       string       // policy of the CPU manager: none, static, …
	PolicyFrom   string       // file or flag with the policy; "": the default
	CgroupDriver string       // "": not set
	Endpoint     string       // path of the runtime's CRI socket, in the form of Runtime.Endpoint; "": not set
	Reserved     hybrid.Milli // CPU time that the kubelet gives to no pod
	ReservedCPUs cpuset.Set   // reservedSystemCPUs; empty: not set
}

// ReadKubelets returns the settings of the kubelets that root of the node runs (see CheckKubelet). While no kubelet runs, it
// returns the settings in the files of each usual directory, because a kubelet can start with them. These files are the state
// file and the configuration file. root is the root directory of the file system, "/". The result unclear is as in CheckKubelet.
func ReadKubelets(root string) (found []KubeletSettings, unclear error) {
	kubelets, unclear := findKubelets(root)
	if len(kubelets) == 0 {
		var doubt error
		kubelets, doubt = installedKubelets(root)
		unclear = errline.Join(unclear, doubt)
	}
	for i := range kubelets {
		settings, doubt := kubelets[i].settings()
		found, unclear = append(found, settings), errline.Join(unclear, doubt)
	}
	return found, unclear
}

// installedKubelets returns the kubelets that do not run and that have files in a usual directory.
func installedKubelets(root string) (found []kubelet, unclear error) {
	for _, dir := range knownRoots {
		k := kubelet{root: root, dir: dir}
		file := filepath.Join(dir, "config.yaml") // as kubeadm writes it
		_, err := os.Lstat(filepath.Join(root, file))
		if err == nil {
			k.words = []string{"--config", file}
		} else if !errors.Is(err, fs.ErrNotExist) {
			unclear = errline.Join(unclear, fmt.Errorf("%s: %w", file, withoutPath(err)))
		}
		_, stateErr := os.Lstat(filepath.Join(root, dir, kubeletState))
		if err == nil || stateErr == nil {
			found = append(found, k)
		}
	}
	return found, unclear
}

func (k *kubelet) settings() (s KubeletSettings, unclear error) {
	s.PID, s.Dir = k.pid, k.dir
	s.Policy, s.PolicyFrom, unclear = k.policy()
	reserved := map[string]string{}
	files, _ := k.files() // policy has reported the error
	for _, file := range files {
		if err := k.addSettings(&s, file, reserved); err != nil {
			unclear = errline.Join(unclear, fmt.Errorf("%s: %w", file, withoutPath(err)))
		}
	}
	if driver := k.flag("cgroup-driver"); driver != "" {
		s.CgroupDriver = driver
	}
	if address := k.flag("container-runtime-endpoint"); address != "" {
		s.Endpoint = socketPath(address)
	}
	for _, name := range []string{"system-reserved", "kube-reserved"} {
		for pair := range strings.SplitSeq(k.flag(name), ",") {
			if key, value, _ := strings.Cut(pair, "="); key == "cpu" {
				reserved[name] = value
			}
		}
	}
	if list := k.flag("reserved-cpus"); list != "" {
		reserved["cpus"] = list
	}
	return s, errline.Join(unclear, s.setReserved(reserved))
}

// addSettings adds the settings of a configuration file. It adds the reserved amounts to the map reserved, under the names of their flags,
// and the list of CPUs under the key "cpus".
func (k *kubelet) addSettings(s *KubeletSettings, file string, reserved map[string]string) error {
	f, err := fileio.OpenInRoot(k.root, file, 0)
	if err != nil {
		return nil // policy has reported the error
	}
	defer f.Close()
	text, err := fileio.ReadOpen(f, largestFile)
	if err != nil {
		return nil // policy has reported the error
	}
	var config struct {
		CgroupDriver string            `yaml:"cgroupDriver"`
		Endpoint     string            `yaml:"containerRuntimeEndpoint"`
		System       map[string]string `yaml:"systemReserved"`
		Kube         map[string]string `yaml:"kubeReserved"`
		CPUs         string            `yaml:"reservedSystemCPUs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if config.CgroupDriver != "" {
		s.CgroupDriver = config.CgroupDriver
	}
	if config.Endpoint != "" {
		s.Endpoint = socketPath(config.Endpoint)
	}
	for name, value := range map[string]string{"system-reserved": config.System["cpu"], "kube-reserved": config.Kube["cpu"], "cpus": config.CPUs} {
		if value != "" {
			reserved[name] = value
		}
	}
	return nil
}

// setReserved sets the reserved CPU time. As in the kubelet, reservedSystemCPUs replaces the CPU amounts of systemReserved and
// kubeReserved.
func (s *KubeletSettings) setReserved(reserved map[string]string) error {
	if list := reserved["cpus"]; list != "" {
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return fmt.Errorf("reservedSystemCPUs: %w", err)
		}
		s.ReservedCPUs, s.Reserved = cpus, hybrid.Milli(1000*cpus.Count())
		return nil
	}
	for _, name := range []string{"system-reserved", "kube-reserved"} {
		if reserved[name] == "" {
			continue
		}
		amount, err := hybrid.ParseMilli(reserved[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.Reserved += amount
	}
	return nil
}
