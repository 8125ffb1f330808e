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

// A Stressor is a program that uses as much as possible of a resource of a machine.
type Stressor struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // {tmp} is replaced by the stressor's own folder
	Counts  Counts   `json:"counts"`  // measure of the stressor's work
}

// Counts is the measure of a stressor's work, besides its CPU time.
type Counts string

// The measures.
const (
	CountsNothing Counts = ""
	CountsFaults  Counts = "taken"   // bytes of memory taken from the kernel, by page faults
	CountsWrites  Counts = "written" // bytes written to files
	CountsSent    Counts = "sent"    // bytes sent to the other network namespace (see networkScript)
)

// ErrBadStressor means that a stressor does not exist, or cannot run on this machine.
var ErrBadStressor = errors.New("bad stressor")

// StressorNames are the five stressors of the study (see Isolation), in the study's order.
var StressorNames = []string{"cpu", "ram", "cache", "io", "network"}

// hddWorkers and hddBytes limit the files of the disk stressor to 512 MiB in total. In the study each worker writes 1
// GiB, the default of stress-ng.
const (
	hddWorkers = 8
	hddBytes   = 64 << 20
)

// mallocWorkers and mallocBytes are the values of the study: the number of workers, and the memory that each
// allocates at most.
const (
	mallocWorkers = 8
	mallocBytes   = 2 << 30
)

// NewStressor returns the study's stressor of a resource (AMBIENT 2019, table I). It reduces the memory of the stressor ram if
// little memory is free (see mallocSize), and limits the socket buffers of the stressor network to the kernel's maximum size.
func NewStressor(name string) (Stressor, error) {
	s := Stressor{Name: name}
	stress := func(args ...string) []string {
		return append(append([]string{"stress-ng"}, args...), "--quiet", "--temp-path", tmpPlaceholder)
	}
	var err error
	switch name {
	case "cpu":
		s.Command = stress("-c", "25")
	case "ram":
		var each int
		each, err = mallocSize()
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
		err = fmt.Errorf("%w %.60q: must be one of %s", ErrBadStressor, name, strings.Join(StressorNames, ", "))
	}
	return s, err
}

// tmpPlaceholder is the placeholder of the stressor's folder.
const tmpPlaceholder = "{tmp}"

// args returns the command with the path tmp in place of the placeholder.
func (s *Stressor) args(tmp string) []string {
	args := slices.Clone(s.Command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], tmpPlaceholder, tmp)
	}
	return args
}

// Text returns the command in readable form.
func (s *Stressor) Text() string {
	if s.Counts == CountsSent && len(s.Command) > 0 {
		return "iperf3 -c OTHER -w " + s.Command[len(s.Command)-1] + " -n 510M, again and again, between two network namespaces"
	}
	return strings.TrimSuffix(strings.Join(s.Command, " "), " --quiet --temp-path "+tmpPlaceholder)
}

// packages maps each program to its Debian and Ubuntu package.
var packages = map[string]string{
	"stress-ng": "stress-ng", "iperf3": "iperf3", "ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux",
}

// Check reports the first program of a stressor that is not installed, and its package.
func (s *Stressor) Check() error {
	programs := []string{"stress-ng"}
	if s.Counts == CountsSent {
		programs = []string{"iperf3", "ip", "unshare", "nsenter"}
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%w %s: %s is not installed; install the package %s", ErrBadStressor, s.Name, p, packages[p])
		}
	}
	return nil
}

// networkScript creates two network namespaces with a veth pair, and sends data from one to the other until the script is killed. The
// namespaces disappear with the last process of the script.
//
//go:embed network.sh
var networkScript string

// mallocSize returns the memory of each worker in bytes: 2 GiB, as in the study that Isolation names, but at most an equal part
// of a quarter of the free memory.
func mallocSize() (int, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kilobytes, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			free, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kilobytes), " kB"))
			return min(mallocBytes, free<<10/4/mallocWorkers), err
		}
	}
	return 0, errors.New("/proc/meminfo: no MemAvailable")
}

// socketWindow returns the size of the socket buffers: the study's 510 MB, or the kernel's maximum.
func socketWindow() (int, error) {
	window := 510_000_000
	for _, file := range []string{"/proc/sys/net/core/wmem_max", "/proc/sys/net/core/rmem_max"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		maximum, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		window = min(window, maximum)
	}
	return window, nil
}
