package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Kernel is a kernel that a guest can boot.
type Kernel struct {
	Release   string // release, as from uname -r
	Image     string // path of the bzImage
	CpusetsV1 bool   // the kernel has the cpuset controller of cgroup v1
}

// Cache returns the directory that scripts/test-deps.sh fills: $CANDOR_GUEST_CACHE, or candor-guest in the user's cache directory.
func Cache() (string, error) {
	if dir := os.Getenv("CANDOR_GUEST_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "candor-guest"), err
}

// Kernels returns the kernels in the cache, the oldest version first.
func Kernels() ([]Kernel, error) {
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	images, err := filepath.Glob(filepath.Join(cache, "kernels", "vmlinuz-*"))
	if err != nil {
		return nil, err
	}
	var kernels []Kernel
	for _, image := range images {
		k := Kernel{Release: strings.TrimPrefix(filepath.Base(image), "vmlinuz-"), Image: image}
		config := filepath.Join(filepath.Dir(image), "config-"+k.Release)
		if k.CpusetsV1, err = cpusetsV1(config); err != nil {
			return nil, err
		}
		kernels = append(kernels, k)
	}
	if len(kernels) == 0 {
		return nil, fmt.Errorf("no kernel in %s/kernels: run scripts/test-deps.sh", cache)
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return slices.Compare(a.Version(), b.Version()) })
	return kernels, nil
}

// Version returns the leading numbers of the release, for example 6, 1, 0.
func (k Kernel) Version() []int {
	numbers := strings.FieldsFunc(k.Release, func(r rune) bool { return r == '.' || r == '-' || r == '+' })
	var v []int
	for _, s := range numbers {
		n, err := strconv.Atoi(s)
		if err != nil {
			break
		}
		v = append(v, n)
	}
	return v
}

// cpusetsV1 reports whether a kernel has the cpuset controller of cgroup v1, according to the kernel's build configuration. Kernels
// before Linux 6.12 have no option CONFIG_CPUSETS_V1; their CONFIG_CPUSETS enables the controller of both versions.
func cpusetsV1(config string) (bool, error) {
	f, err := os.Open(config)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	cpusets, v1, known := false, false, false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		cpusets = cpusets || line == "CONFIG_CPUSETS=y"
		v1 = v1 || line == "CONFIG_CPUSETS_V1=y"
		known = known || strings.Contains(line, "CONFIG_CPUSETS_V1")
	}
	return cpusets && (v1 || !known), lines.Err()
}
