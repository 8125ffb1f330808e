// Package attacks has the programs of hostile tenants: each grows files that candor reads of a container.
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
	"mounts":    func(args []string) { growMounts(number(args[0])) },
	"threads":   func(args []string) { growThreads(number(args[0])) },
	"processes": func(args []string) { growProcesses(number(args[0])) },
	"groups":    func(args []string) { growGroups(number(args[0])) },
	"words":     growWords,
	"lease":     func(args []string) { holdLeases(args[0]) },
}

// Names returns the names of the attacks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(attacks)) }

// Prepare runs in an init function of the program that runs an attack: mounts need the main thread, because
// /proc/PID/mountinfo describes its mount namespace.
func Prepare(name string) {
	if name == "mounts" {
		runtime.LockOSThread()
	}
}

// Run performs an attack. It prints "ready" once the attack is in place, and stays.
func Run(name string, args []string) { attacks[name](args) }

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

// check ends an attack that cannot be performed.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// ready reports that an attack is in place, and keeps it so.
func ready() {
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// growMounts makes mounts with paths of nearly 4 kB, so that each has 7.7 kB in the mount table.
func growMounts(n int) {
	check(unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS))
	check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	check(unix.Mount("deep", "/dev", "tmpfs", 0, "")) // a folder that every container has
	check(unix.Chdir("/dev"))                         // os.Chdir fails where threads have directories of their own
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
	ready()
}

// growThreads starts threads with an affinity of their own, and with escape sequences in their names.
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
	ready()
}

func nameThread(name string) {
	check(os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()), []byte(name), 0))
}

// growProcesses starts programs that sleep.
func growProcesses(n int) {
	for range n {
		check(exec.Command("sleep", "3600").Start())
	}
	ready()
}

// growGroups makes nested groups in every hierarchy in which this process has a group of its own.
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
	ready()
}

// growWords has as many supplementary groups as the kernel allows, and the command line that it was started with.
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
	ready()
}
