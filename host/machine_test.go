package host

import (
	"os"
	"path/filepath"
	"testing"
)

// viewInMounts returns the container whose view is mounted over the list of online CPUs.
func TestViewInMounts(t *testing.T) {
	const rest = " rw - tmpfs tmpfs rw\n"
	file := filepath.Join(t.TempDir(), "mountinfo")
	for line, want := range map[string]string{
		"36 35 0:45 /candor/views/web/online /sys/devices/system/cpu/online": "web",
		"36 35 0:45 /views/web-1/online /sys/devices/system/cpu/online":      "web-1",
		"36 35 0:45 / /sys": "",
		"36 35 0:45 /candor/views/web/online /sys/devices/system/cpu/online" + rest +
			"37 36 0:46 /mine/online /sys/devices/system/cpu/online": "web",
		"36 35 0:45 /sys/devices/system/cpu/online /sys/devices/system/cpu/online": "", // lxcfs
		"36 35 0:45 /candor/views/web/cpuinfo /proc/cpuinfo":                       "",
	} {
		if err := os.WriteFile(file, []byte("1 2 0:3 / /"+rest+line+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := viewInMounts(file, 1<<20)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}
