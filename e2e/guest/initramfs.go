package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/guest/report"
)

// initramfs returns the guest's files as an archive in memory. The archive is not compressed, because the slow emulated guest would
// have to decompress it.
func (g *Guest) initramfs() (*os.File, error) {
	fd, err := unix.MemfdCreate("initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initramfs")
	if err := g.fill(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fill writes the archive to a file.
func (g *Guest) fill(f *os.File) error {
	plan, err := json.Marshal(report.Plan{Cgroup: g.Cgroup, Commands: g.Commands})
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	a := NewArchive(buffered)
	for _, name := range slices.Sorted(maps.Keys(g.Files)) { // sorted, so that "/" is the first
		if err := a.Copy(name, g.Files[name]); err != nil {
			return err
		}
	}
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run"} {
		a.Directory(dir)
	}
	texts := map[string]string{report.PlanFile: string(plan)}
	if g.Systemd {
		maps.Copy(texts, systemdTexts)
	}
	maps.Copy(texts, g.Texts)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		a.Text(name, texts[name])
	}
	if err := a.Copy("init", g.Init); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}
