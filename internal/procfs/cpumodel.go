package procfs

import (
	"strings"

	"github.com/candor-project/candor/internal/kernelfs"
)

// CPUModel returns the model name of the first CPU; "" on architectures without it.
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
