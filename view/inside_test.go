package view

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// insideVariable makes the test binary a program in a view. It runs a function of insideFuncs and prints the result
// as JSON. The value is the key of the function, a colon and a directory.
const insideVariable = "CANDOR_VIEW_TEST_INSIDE"

var insideFuncs = map[string]func(dir string) (any, error){
	"mount": func(dir string) (any, error) {
		if err := Mount(dir); err != nil {
			return nil, err
		}
		return answers(), nil
	},
	// A child process mounts in the mount namespace of its parent.
	"child": func(dir string) (any, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), insideVariable+"=mount:"+dir)
		out, err := cmd.CombinedOutput()
		return fmt.Sprint(string(out), err), nil
	},
	"break": func(dir string) (any, error) {
		if err := Mount(dir); err != nil {
			return nil, err
		}
		_, write := os.OpenFile(hostOnline, os.O_WRONLY, 0)
		chmod := os.Chmod(hostCPUInfo, 0o600)
		_, exec := exec.Command(hostCPUInfo).Output()
		return []string{fmt.Sprint(write), fmt.Sprint(chmod), fmt.Sprint(exec)}, nil
	},
	"no sysfs": func(dir string) (any, error) {
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return nil, err
		}
		if err := unix.Mount("empty", "/sys", "tmpfs", 0, ""); err != nil {
			return nil, err
		}
		return fmt.Sprint(Mount(dir)), nil
	},
	// The view is on a full file system.
	"full": func(dir string) (any, error) {
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return nil, err
		}
		if err := unix.Mount("small", dir, "tmpfs", 0, "size=32k"); err != nil {
			return nil, err
		}
		all, err := parseCPUInfo(machineText(64))
		if err != nil {
			return nil, err
		}
		host, at := &all, filepath.Join(dir, "view")
		if err := write(at, cpuset.MustParse("1-5"), host); err != nil {
			return nil, err
		}
		filler, err := os.Create(filepath.Join(dir, "filler"))
		for err == nil {
			_, err = filler.Write(make([]byte, 4096))
		}
		before, _ := os.ReadFile(filepath.Join(at, "cpuinfo"))
		grow := write(at, cpuset.MustParse("0-63"), host)
		after, _ := os.ReadFile(filepath.Join(at, "cpuinfo"))
		online, _ := os.ReadFile(filepath.Join(at, "online"))
		move := write(at, cpuset.MustParse("2-6"), host)
		moved, _ := os.ReadFile(filepath.Join(at, "online"))
		return []string{fmt.Sprint(grow), fmt.Sprint(strings.TrimRight(string(after), "\n") == strings.TrimRight(string(before), "\n")),
			strings.TrimRight(string(online), "\n"), fmt.Sprint(move), strings.TrimRight(string(moved), "\n")}, nil
	},
	"observe": func(dir string) (any, error) {
		var mask unix.CPUSet
		mask.Set(0)
		if err := Mount(dir); err != nil {
			return nil, err
		}
		if err := unix.SchedSetaffinity(os.Getpid(), &mask); err != nil {
			return nil, err
		}
		return ReadSources(), nil
	},
	"live": func(dir string) (any, error) {
		if err := Mount(dir); err != nil {
			return nil, err
		}
		if err := MountLive(dir, LiveParts{Memory: true, Stat: true}); err != nil {
			return nil, err
		}
		got := map[string]string{}
		for name, command := range map[string]string{
			"MemTotal": `awk '/^MemTotal:/ {print $2}' /proc/meminfo`,
			"swaps":    "grep -c Filename /proc/swaps",
			"stat":     "grep -c '^cpu[0-9]' /proc/stat",
			"write":    "echo x 2>/dev/null >/proc/meminfo && echo written || echo refused",
		} {
			out, err := exec.Command("sh", "-c", command).CombinedOutput()
			if got[name] = strings.TrimSpace(string(out)); err != nil {
				got[name] += " " + err.Error()
			}
		}
		o, err := Observe(os.Getpid(), filepath.Dir(dir))
		got["observed"] = fmt.Sprintf("%s %t %t", o.View, o.Live.Memory, o.Live.Stat)
		return got, err
	},
	"mount many times": mountMany,
	"read":             readViews,
	"observe from outside": func(dir string) (any, error) {
		if err := Mount(dir); err != nil {
			return nil, err
		}
		return Observe(os.Getpid(), filepath.Dir(dir))
	},
}

func TestMain(m *testing.M) {
	work, dir, inside := strings.Cut(os.Getenv(insideVariable), ":")
	if !inside {
		os.Exit(m.Run())
	}
	answer, err := insideFuncs[work](dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
	os.Exit(0)
}

// inside runs a function of insideFuncs in a new mount namespace, and decodes its result into answer.
func inside(t testing.TB, work, dir string, answer any) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), insideVariable+"="+work+":"+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, &stderr)
	}
	return json.Unmarshal(out, answer)
}

// answers returns the numbers of CPUs that programs report, by program. Programs that are not installed are omitted.
func answers() map[string]string {
	commands := map[string]string{
		"glibc ONLN":    "getconf _NPROCESSORS_ONLN",
		"glibc CONF":    "getconf _NPROCESSORS_CONF",
		"nproc":         "nproc",
		"grep":          "grep -c ^processor /proc/cpuinfo",
		"awk":           `awk -F: '/^processor/ {n++} END {print n}' /proc/cpuinfo`,
		"lscpu online":  "LC_ALL=C lscpu | sed -n 's/^On-line CPU(s) list: *//p'",
		"lscpu model":   "LC_ALL=C lscpu | sed -n 's/^Model name: *//p'",
		"shell":         `n=0; while read -r k s v; do [ "$k" = processor ] && n=$((n+1)); done </proc/cpuinfo; echo $n`,
		"shell list":    "echo $(cat /sys/devices/system/cpu/online)",
		"python":        `python3 -c 'import os; print(os.cpu_count())'`,
		"python blocks": `python3 -c 'print(len(open("/proc/cpuinfo").read().strip().split("\n\n")))'`,
		"python lines":  `python3 -c 'print(sum(1 for l in open("/proc/cpuinfo") if l.strip() and l.split(":", 1)[0].strip() == "processor"))'`,
	}
	found := make(map[string]string)
	for name, command := range commands {
		tool := strings.Fields(command)[0]
		if _, err := exec.LookPath(tool); err != nil && (tool == "python3" || tool == "getconf") {
			continue
		}
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		found[name] = strings.TrimSpace(string(out))
		if err != nil {
			found[name] += " " + err.Error()
		}
	}
	return found
}
