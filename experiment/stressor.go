package experiment

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// A Stressor is a program that uses one of a machine's resources as much as it can.
type Stressor struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // {tmp} is a folder of its own
	Counts  Counts   `json:"counts"`  // what tells how much it achieves
}

// Counts is what is counted of a stressor, besides its CPU time.
type Counts string

const (
	CountsNothing Counts = ""
	CountsFaults  Counts = "taken"   // bytes of memory taken from the kernel, by page faults
	CountsWrites  Counts = "written" // bytes written to files
	CountsSent    Counts = "sent"    // bytes sent to the other namespace
)

// ErrBadStressor is a stressor that there is not, or that does not run here.
var ErrBadStressor = errors.New("bad stressor")

// StressorNames are the study's five, in its order.
var StressorNames = []string{"cpu", "ram", "cache", "io", "network"}

// hddWorkers and hddBytes bound what the stressor of the disk writes: files of 512 MiB in all. The study let each worker have
// 1 GiB, what stress-ng writes by default.
const (
	hddWorkers = 8
	hddBytes   = 64 << 20
)

// mallocWorkers and mallocBytes are the study's: workers that take up to so much memory at once.
const (
	mallocWorkers = 8
	mallocBytes   = 2 << 30
)

// NewStressor returns the study's stressor of a resource (AMBIENT 2019, table I), scaled down where this machine or the
// folder's bound is too small for it.
func NewStressor(name string) (Stressor, error) {
	s := Stressor{Name: name}
	stress := func(args ...string) []string {
		return append(append([]string{"stress-ng"}, args...), "--quiet", "--temp-path", tmpWord)
	}
	var err error
	switch name {
	case "cpu":
		s.Command = stress("-c", "25")
	case "ram":
		var each int
		each, err = mallocEach()
		s.Command, s.Counts = stress("--malloc", strconv.Itoa(mallocWorkers), "--malloc-bytes", strconv.Itoa(each)), CountsFaults
	case "cache":
		s.Command = stress("-C", "25")
	case "io":
		s.Command, s.Counts = stress("-d", strconv.Itoa(hddWorkers), "--hdd-bytes", strconv.Itoa(hddBytes)), CountsWrites
	case "network":
		var window int
		window, err = socketWindow()
		s.Command, s.Counts = []string{"unshare", "--net", "sh", "-c", networkScript, "sh", strconv.Itoa(window)}, CountsSent
	default:
		err = fmt.Errorf("%w %.60q: want one of %s", ErrBadStressor, name, strings.Join(StressorNames, ", "))
	}
	return s, err
}

// tmpWord stands for the stressor's folder.
const tmpWord = "{tmp}"

// args returns the command with its folder.
func (s *Stressor) args(tmp string) []string {
	args := slices.Clone(s.Command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], tmpWord, tmp)
	}
	return args
}

// Text is the command for people.
func (s *Stressor) Text() string {
	if s.Counts == CountsSent && len(s.Command) > 0 {
		return "iperf3 -c OTHER -w " + s.Command[len(s.Command)-1] + " -n 510M, again and again, between two network namespaces"
	}
	return strings.TrimSuffix(strings.Join(s.Command, " "), " --quiet --temp-path "+tmpWord)
}

// packages are those of Debian and Ubuntu that programs are in.
var packages = map[string]string{
	"stress-ng": "stress-ng", "iperf3": "iperf3", "ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux",
}

// Check says which program of a stressor is not installed, and which package has it.
func (s *Stressor) Check() error {
	programs := []string{"stress-ng"}
	if s.Counts == CountsSent {
		programs = []string{"iperf3", "ip", "unshare", "nsenter"}
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%w %s: %s is not installed: want the package %s", ErrBadStressor, s.Name, p, packages[p])
		}
	}
	return nil
}

// networkScript makes two namespaces with a cable between them, and sends from one to the other as long as it is let. They go
// with the last of its processes.
//
//go:embed network.sh
var networkScript string

// mallocEach is how much a worker may take: the study's 2 GiB, or what leaves three quarters of the free memory alone.
func mallocEach() (int, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kilobytes, is := strings.CutPrefix(line, "MemAvailable:"); is {
			free, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kilobytes), " kB"))
			return min(mallocBytes, free<<10/4/mallocWorkers), err
		}
	}
	return 0, errors.New("/proc/meminfo: no MemAvailable")
}

// socketWindow is the size of the sockets' buffers: the study's 510 MB, or the most that the kernel allows.
func socketWindow() (int, error) {
	window := 510_000_000
	for _, file := range []string{"/proc/sys/net/core/wmem_max", "/proc/sys/net/core/rmem_max"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		window = min(window, most)
	}
	return window, nil
}
