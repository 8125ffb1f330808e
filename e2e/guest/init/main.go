// Command init is the first program of a test guest: it mounts the usual file systems, runs the commands of its plan in their
// order, and reports their ends on the second serial port. As a service of systemd, it only runs the commands.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/guest/report"
)

func main() {
	first := os.Getpid() == 1
	plan, err := setUp(first)
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // the console, should there be no line to report on
	}
	line, lineErr := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if lineErr != nil {
		fmt.Fprintln(os.Stderr, "init:", lineErr)
		os.Exit(1)
	}
	failure := ""
	if err != nil {
		failure = err.Error()
	} else {
		for _, c := range plan.Commands {
			report.Begin(line)
			report.End(line, run(c, line, first))
		}
	}
	report.Done(line, failure)
	// The host ends the machine when it has read that; the last byte must have left the terminal.
	unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1)
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func setUp(first bool) (report.Plan, error) {
	var plan report.Plan
	text, err := os.ReadFile(report.PlanFile)
	if err != nil {
		return plan, err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, fmt.Errorf("%s: %w", report.PlanFile, err)
	}
	if first {
		if err := mountAll(plan.Cgroup); err != nil {
			return plan, err
		}
		for k, v := range map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8"} {
			os.Setenv(k, v)
		}
	}
	if err := startCPUs(); err != nil {
		return plan, err
	}
	return plan, busybox()
}

// startCPUs brings up the CPUs that the kernel has left for later.
func startCPUs() error {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu*/online")
	for _, f := range files {
		if err == nil {
			err = os.WriteFile(f, []byte("1"), 0)
		}
	}
	return err
}
