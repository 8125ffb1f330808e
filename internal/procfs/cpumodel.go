package procfs

import (
	"os"
	"strings"
)

// CPUModel is the name of the first CPU; "" where the machine does not tell one, as some architectures.
func CPUModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
