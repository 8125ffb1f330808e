package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// roleArgument makes this test binary perform the role of a program, because guests have no other programs.
const roleArgument = "e2e-role"

func init() {
	if len(os.Args) > 2 && os.Args[1] == roleArgument {
		os.Exit(perform(os.Args[2], os.Args[3:]))
	}
}

// perform performs a role and returns its exit code.
func perform(role string, args []string) int {
	switch role {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return code
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, "and this")
	case "print":
		fmt.Println(strings.Join(args, " "))
	case "sees":
		fmt.Println(sees())
	case "environ":
		fmt.Println(os.Getenv(args[0]))
	case "suicide":
		number, _ := strconv.Atoi(args[0])
		signal.Reset()
		syscall.Kill(os.Getpid(), syscall.Signal(number))
		time.Sleep(time.Minute)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "nap":
		length, _ := time.ParseDuration(args[0])
		time.Sleep(length)
	case "burn":
		fmt.Println("ready")
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
		}
	case "spin":
		threads, _ := strconv.Atoi(args[0])
		return spin(threads)
	case "bursts":
		return burstsRole(args)
	case "serve":
		return serveRole(args)
	case "callers":
		return callersRole(args)
	case "clients":
		return clientsRole(args)
	case "signals":
		return reportSignals()
	case "leave":
		return leave()
	case "file":
		return readFile3()
	case "ignoring":
		number, _ := strconv.Atoi(args[0])
		signal.Ignore(syscall.Signal(number))
		fmt.Println(syscall.Exec(args[1], args[1:], os.Environ()))
		return 98
	case "in-group":
		fmt.Println(enterGroup(args[0], args[1:]))
		return 98
	case "watch-memory":
		return watchMemory(args)
	case "exec-without-cgroups":
		return execWithoutCgroups(args)
	default:
		fmt.Println("no role", role)
		return 99
	}
	return 0
}

// sees returns the number of CPUs in the affinity, in sysfs and in procfs of this process.
func sees() string {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return err.Error()
	}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return err.Error()
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(online)))
	if err != nil {
		return err.Error()
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %d %d", mask.Count(), cpus.Count(), bytes.Count(info, []byte("processor\t")))
}

// reportSignals prints each signal that it receives, and on SIGHUP also the CPU counts that it sees. On
// SIGTERM it exits with code 5.
func reportSignals() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP, unix.SIGWINCH, unix.SIGQUIT)
	fmt.Println("ready")
	for sig := range signals {
		switch sig {
		case unix.SIGHUP:
			fmt.Println("hangup", sees())
		case unix.SIGTERM:
			fmt.Println("terminated")
			return 5
		default:
			fmt.Println(unix.SignalName(sig.(syscall.Signal)))
		}
	}
	return 0
}

// leave starts a process that continues to run, prints its PID, and exits with code 3.
func leave() int {
	child := exec.Command("/proc/self/exe", roleArgument, "sleep")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1)) // ready
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(child.Process.Pid)
	return 3
}

// readFile3 prints the content of file descriptor 3.
func readFile3() int {
	data, err := io.ReadAll(os.NewFile(3, "three"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	os.Stdout.Write(data)
	return 0
}

// execWithoutCgroups unmounts the cgroup controllers of CPUs and executes its arguments. The caller starts it
// in a new mount namespace.
func execWithoutCgroups(args []string) int {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH)
	}
	if err == nil {
		err = syscall.Exec(args[0], args, os.Environ())
	}
	fmt.Println(err)
	return 98
}
