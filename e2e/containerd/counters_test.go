package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/probes"
)

// counters are the programs in the image that print a CPU count: nproc, the functions of glibc in a C
// program, the two functions of Go, and the methods of scripts.
var counters = []string{
	"nproc", "getconf _NPROCESSORS_ONLN",
	"sysconf onln", "sysconf nprocs", "sysconf affinity",
	"go125", "go125 numcpu",
	"grep -c ^processor /proc/cpuinfo",
}

// built has the paths of the programs that the tests built: candor, and the programs of the image.
var built string

func TestMain(m *testing.M) {
	if socket := os.Getenv(emptyPluginSocket); socket != "" {
		if err := runEmptyPlugin(socket); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// builtDir returns the directory for the builds, which all tests share.
func builtDir(t *testing.T) string {
	t.Helper()
	if built == "" {
		dir, err := os.MkdirTemp("", "candor-nri-bin-")
		if err != nil {
			t.Fatal(err)
		}
		built = dir
	}
	return built
}

// counterFiles returns the files of the counters by their path in the image. Compiled programs are linked statically.
func counterFiles(t *testing.T) map[string]string {
	t.Helper()
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		counters = []string{"busybox nproc", "grep -c ^processor /proc/cpuinfo"} // guests have no tools to build the other counters
		return nil
	}
	files := map[string]string{}
	for _, program := range []string{"nproc", "getconf"} {
		linked, err := probes.Linked(program)
		if err != nil {
			t.Skipf("%s for the image: %v", program, err)
		}
		for _, file := range linked {
			files[file] = file
		}
		files["/bin/"+program] = linked[0]
	}
	for _, p := range probes.All() {
		name := strings.TrimPrefix(p.Run[0], "./")
		if name != "sysconf" && name != "go125" || files["/bin/"+name] != "" {
			continue
		}
		file := filepath.Join(builtDir(t), name)
		files["/bin/"+name] = file
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if missing := p.Missing("", true); missing != "" {
			t.Skipf("no %s to build a program of the image: make test-deps installs it", missing)
		}
		if err := p.Make("../probes/testdata", builtDir(t)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// sees checks the CPU counts that programs in a sensitive container find.
func (c *container) sees() {
	c.Helper()
	before := c.cpus()
	output := strings.Fields(c.exec("sh", "-c", strings.Join(counters, "; ")+"; cat /sys/devices/system/cpu/online"))
	if len(output) != len(counters)+1 {
		c.Errorf("%s, limit %v: got %[4]q, want a number from each of %[3]q", c.name, c.limit, counters, output)
		return
	}
	for i, counter := range counters {
		if output[i] != strconv.Itoa(c.limit.CPUs()) {
			c.Errorf("%s, limit %v: %s prints %s", c.name, c.limit, counter, output[i])
		}
	}
	if online := output[len(counters)]; c.cpus() == before && online != before.String() { // otherwise its fraction has moved
		c.Errorf("%s: its file has %s, its cpuset is %s", c.name, online, before.String())
	}
}
