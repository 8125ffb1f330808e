package doctor

import (
	"fmt"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/hybrid"
)

// A foundKubelets is the result of the search for kubelets.
type foundKubelets struct {
	all     []nri.KubeletSettings
	unclear error
}

// kubelets returns the running kubelets or, if no kubelet runs, the configured kubelets.
func (s *System) kubelets() *foundKubelets {
	if s.facts.kubelets == nil {
		s.facts.kubelets = new(foundKubelets)
		s.facts.kubelets.all, s.facts.kubelets.unclear = nri.ReadKubelets(s.Root)
	}
	return s.facts.kubelets
}

// eachKubelet runs a check for every kubelet. It returns the first finding that is not OK or, if all are OK, the last finding.
func (s *System) eachKubelet(check func(*nri.KubeletSettings) finding) finding {
	found := s.kubelets()
	last := pass("no kubelet runs, and none is configured")
	for i := range found.all {
		if last = check(&found.all[i]); last.status != OK {
			return last
		}
	}
	if found.unclear != nil {
		return finding{Unknown, found.unclear.Error(), "run candor doctor as root on the node, and correct the files"}
	}
	return last
}

// kubeletName names a kubelet in a text.
func kubeletName(k *nri.KubeletSettings) string {
	if k.PID == "" {
		return "the kubelet of " + k.Dir + " (which does not run)"
	}
	return "the kubelet (process " + k.PID + ")"
}

func kubeletPolicy(s *System) finding {
	return s.eachKubelet(func(k *nri.KubeletSettings) finding {
		if k.Policy == "none" {
			return pass("%s has the policy none", kubeletName(k))
		}
		return fail(fmt.Sprintf("set cpuManagerPolicy: none, remove %s/cpu_manager_state and restart the kubelet", k.Dir),
			"%s assigns CPUs itself, with the policy %s (%s)", kubeletName(k), k.Policy, k.PolicyFrom)
	})
}

// kubeletDriver compares the cgroup drivers of the kubelet and of the runtime.
func kubeletDriver(s *System) finding {
	runtimes := s.runtimes()
	return s.eachKubelet(func(k *nri.KubeletSettings) finding {
		if len(runtimes.all) == 0 {
			return pass("%s: no runtime to compare with", kubeletName(k))
		}
		r, doubt := s.runtimeOf(k)
		if doubt != "" {
			return finding{Unknown, doubt, endpointRemedy}
		}
		if r.Err != nil {
			return finding{Unknown, r.Err.Error(), "see the check nri-enabled"}
		}
		driver := "cgroupfs"
		if r.SystemdCgroup {
			driver = "systemd"
		}
		switch {
		case k.CgroupDriver == driver:
			return pass("%s, in the kubelet and in %s", driver, r.Name)
		case k.CgroupDriver == "" && driver == "cgroupfs":
			return pass("%s has %s, and the kubelet names no driver", r.Name, driver)
		case k.CgroupDriver == "":
			return warn("set cgroupDriver: "+driver+" in the kubelet's configuration",
				"%s has %s, and %s names no driver: a kubelet that does not get it from the runtime uses cgroupfs", nameOf(r), driver, kubeletName(k))
		}
		return fail("set the same driver in both, systemd on machines with systemd, and restart both",
			"%s has the cgroup driver %s, and %s has %s", kubeletName(k), k.CgroupDriver, nameOf(r), driver)
	})
}

// kubeletReserved compares two reserves: the CPU time that the kubelet withholds from pods, and the CPU time that Candor withholds from
// sensitive containers.
func kubeletReserved(s *System) finding {
	options, err := s.options()
	if err != nil {
		return s.unreadable(err, Unknown, "see the checks host-options and nri-config")
	}
	if !s.exists(s.NRI) {
		options = nri.DefaultConfig().Over(options) // the options of candor nri without a configuration file
	}
	needed := hybrid.Milli(options.Reserved.Count()*1000) + hybrid.Milli(options.MinShared)
	return s.eachKubelet(func(k *nri.KubeletSettings) finding {
		if k.Reserved != needed {
			return warn(fmt.Sprintf("set cpu: %v in systemReserved of the kubelet, or change reserved and minShared of candor nri", needed),
				"%s reserves %v, Candor %v (reserved CPUs %s, minShared %v)", kubeletName(k), k.Reserved, needed, orNone(options.Reserved.String()), hybrid.Milli(options.MinShared))
		}
		if !k.ReservedCPUs.IsEmpty() && k.ReservedCPUs != options.Reserved {
			return warn("set the same CPUs in reservedSystemCPUs and in reserved of candor nri", "%s reserves the CPUs %s, Candor %s", kubeletName(k), k.ReservedCPUs, orNone(options.Reserved.String()))
		}
		return pass("%v, in the kubelet and in Candor", needed)
	})
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
