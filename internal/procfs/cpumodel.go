package procfs

import (
	"strings"

	"github.com/candor-project/candor/internal/kernelfs"
)

// CPUModel is the name of the first CPU; "" where the machine does not tell one, as some architectures.
func CPUModel() string {
	model := ""
	_ = kernelfs.Lines("/proc/cpuinfo", kernelfs.MaxSize, func(line []byte) (more bool) {
		key, value, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
		}
		return model == ""
	})
	return model
}
