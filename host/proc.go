package host

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// cpusetKeepsAffinity reports whether a change of a cpuset preserves the affinity that threads have set themselves.
// The kernel does so since Linux 6.2.
func cpusetKeepsAffinity() bool { return kernelAtLeast(6, 2) }

// kernelHasBurst reports whether the kernel supports a burst of CFS quotas (Linux 5.14 and later).
func kernelHasBurst() bool { return kernelAtLeast(5, 14) }

func kernelAtLeast(major, minor int) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return releaseAtLeast(unix.ByteSliceToString(name.Release[:]), major, minor)
}

// releaseAtLeast compares a kernel release such as "6.1.0-18-cloud-amd64".
func releaseAtLeast(release string, major, minor int) bool {
	var gotMajor, gotMinor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &gotMajor, &gotMinor); n != 2 {
		return false
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// maxPinned bounds the number of threads of a container that hasPinnedThreads inspects. Inspecting 2000 threads takes
// about 40 ms, for which every other operation waits.
const maxPinned = 2000

// pinsThread reports whether a thread of a process has its own affinity, which lacks some of the given CPUs. It
// decrements the counter threads for each inspected thread, and returns true when the counter is used up.
func pinsThread(pid int, cpus cpuset.Set, threads *int) bool {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	folder, err := os.Open(dir)
	if err != nil {
		return false // the process has ended
	}
	defer folder.Close()
	for {
		ids, err := folder.Readdirnames(256)
		for _, id := range ids {
			if *threads--; *threads < 0 {
				return true
			}
			// A thread that has ended has no affinity.
			if s, err := procfs.ReadStatus(dir + "/" + id); err == nil && s.CPUs.Intersect(cpus) != cpus {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

// listPIDs formats the first processes of a list, with their names.
func listPIDs(pids []int) string {
	const maxNames = 5
	var names []string
	for _, pid := range pids[:min(len(pids), maxNames)] {
		names = append(names, fmt.Sprintf("%d (%s)", pid, procfs.NameOf(pid)))
	}
	if len(pids) > maxNames {
		names = append(names, fmt.Sprintf("%d more", len(pids)-maxNames))
	}
	return strings.Join(names, ", ")
}
