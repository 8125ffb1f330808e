package host

import "testing"

// Whose view is mounted over the list of online CPUs, if it is one of Candor's.
func TestViewIn(t *testing.T) {
	const rest = " rw - tmpfs tmpfs rw\n"
	for line, want := range map[string]string{
		"36 35 0:45 /candor/views/web/online /sys/devices/system/cpu/online": "web",
		"36 35 0:45 /views/web-1/online /sys/devices/system/cpu/online":      "web-1",
		"36 35 0:45 / /sys": "",
		"36 35 0:45 /sys/devices/system/cpu/online /sys/devices/system/cpu/online": "", // lxcfs
		"36 35 0:45 /candor/views/web/cpuinfo /proc/cpuinfo":                       "",
	} {
		if got := viewIn([]byte("1 2 0:3 / /" + rest + line + rest)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
