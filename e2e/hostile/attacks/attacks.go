// Package attacks contains programs that a hostile tenant could run in a container. Most attacks enlarge a file of the container
// that candor reads; the attack "lease" delays candor's writes.
package attacks

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var attacks = map[string]func(args []string){
	"mounts":    func(args []string) { growMounts(parseNumber(args[0])) },
	"threads":   func(args []string) { growThreads(parseNumber(args[0])) },
	"processes": func(args []string) { growProcesses(parseNumber(args[0])) },
	"groups":    func(args []string) { growGroups(parseNumber(args[0])) },
	"words":     growWords,
	"lease":     func(args []string) { holdLeases(args[0]) },
}

// Names returns the names of the attacks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(attacks)) }

// Prepare prepares an attack. A program must call it in an init function, which runs on the main thread. The attack "mounts" must stay
// on this thread, because /proc/PID/mountinfo describes the mount namespace of the main thread.
func Prepare(name string) {
	if name == "mounts" {
		runtime.LockOSThread()
	}
}

// Run performs an attack. It prints "ready" when the effect of the attack is complete, and then does not return.
func Run(name string, args []string) { attacks[name](args) }

func parseNumber(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

// check ends the program with an error message if err is not nil.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// reportReady prints "ready" and sleeps, so that the effect of the attack lasts.
func reportReady() {
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// growMounts creates n mounts with paths of nearly 4 kB, so that each mount needs 7.7 kB in the mount table.
func growMounts(n int) {
	check(unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS))
	check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	check(unix.Mount("deep", "/dev", "tmpfs", 0, "")) // every container has the folder /dev
	check(unix.Chdir("/dev"))                         // os.Chdir fails after CLONE_FS, because threads have their own directories
	name := strings.Repeat("x", 250)
	for range 15 {
		check(unix.Mkdir(name, 0o755))
		check(unix.Chdir(name))
	}
	for i := range n {
		dir := fmt.Sprintf("%06d", i)
		check(unix.Mkdir(dir, 0o755))
		check(unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	}
	reportReady()
}

// growThreads starts n threads, each with its own affinity and with escape sequences in its name.
func growThreads(n int) {
	debug.SetMaxThreads(n + 1000)
	var started sync.WaitGroup
	for range n {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			nameThread("\x1b[2J\x1b]0;x\n)")
			var mask unix.CPUSet
			check(unix.SchedGetaffinity(0, &mask))
			for cpu := range 1024 {
				if mask.IsSet(cpu) {
					mask.Zero()
					mask.Set(cpu)
					break
				}
			}
			check(unix.SchedSetaffinity(0, &mask))
			started.Done()
			select {}
		}()
	}
	started.Wait()
	reportReady()
}

func nameThread(name string) {
	check(os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()), []byte(name), 0))
}

// growProcesses starts n processes that sleep.
func growProcesses(n int) {
	for range n {
		check(exec.Command("sleep", "3600").Start())
	}
	reportReady()
}

// growGroups creates n cgroups in the cgroup of this process, in every hierarchy in which the path of this cgroup contains
// candor-hostile.
func growGroups(n int) {
	text, err := os.ReadFile("/proc/self/cgroup")
	check(err)
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if !strings.Contains(parts[2], "candor-hostile") {
			continue
		}
		dirs, err := filepath.Glob("/sys/fs/cgroup/*" + strings.ReplaceAll(parts[2], "[", "\\["))
		check(err)
		if parts[1] == "" {
			dirs = append(dirs, "/sys/fs/cgroup"+parts[2])
		}
		for _, dir := range dirs {
			for i := range n {
				if err := os.Mkdir(fmt.Sprintf("%s/%06d", dir, i), 0o755); err != nil && !os.IsExist(err) && !os.IsNotExist(err) {
					check(err)
				}
			}
		}
	}
	reportReady()
}

// growWords gives this process the maximum number of supplementary groups, and a long command line. It executes the program again
// with this command line.
func growWords(args []string) {
	if len(args) < 10 {
		groups := make([]int, 65_536)
		for i := range groups {
			groups[i] = 1<<32 - 2 - i
		}
		check(syscall.Setgroups(groups))
		self, err := os.Executable()
		check(err)
		words := []string{self, "words"}
		for range 12 {
			words = append(words, strings.Repeat("w", 120_000))
		}
		check(syscall.Exec(self, words, os.Environ()))
	}
	reportReady()
}
