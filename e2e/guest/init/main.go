// Command init is the first program of a guest. It mounts the usual file systems, runs the commands of the guest's plan one after
// another, and reports their output and results on the second serial port. In a guest with systemd, init is a service instead,
// and mounts nothing.
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
	isPID1 := os.Getpid() == 1
	plan, err := setUp(isPID1)
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // on the console, because the serial port can be missing
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
			report.End(line, run(c, line, isPID1))
		}
	}
	report.Done(line, failure)
	// The host ends the guest when it has read the end of the report. Wait until the terminal has sent the last byte.
	unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1)
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// setUp prepares the guest and returns its plan. isPID1 reports whether this process is PID 1.
func setUp(isPID1 bool) (report.Plan, error) {
	var plan report.Plan
	text, err := os.ReadFile(report.PlanFile)
	if err != nil {
		return plan, err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, fmt.Errorf("%s: %w", report.PlanFile, err)
	}
	if isPID1 {
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

// startCPUs starts the CPUs that the kernel has not started. The command line of the kernel contains maxcpus=1.
func startCPUs() error {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu*/online")
	for _, f := range files {
		if err == nil {
			err = os.WriteFile(f, []byte("1"), 0)
		}
	}
	return err
}
