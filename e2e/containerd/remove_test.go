package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// remove removes the pod and its group as the kubelet does.
func (p *pod) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.removeSandbox(ctx, p.id); err != nil {
		return err
	}
	if p.slice != "" {
		systemctl(p, "stop", filepath.Base(p.slice))
		return nil
	}
	return removeGroups(p.parent + "/" + p.name)
}

// removeSandbox stops a sandbox, and removes it after its containers. If containerd removes both at once, it
// hangs forever when a plugin connects at that moment.
func (l *lab) removeSandbox(ctx context.Context, id string) error {
	list, err := l.cri.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: id}})
	for _, c := range list.GetContainers() {
		if err == nil && l.stopFirst {
			_, err = l.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Id})
		}
	}
	if err == nil {
		_, err = l.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	}
	for _, c := range list.GetContainers() {
		if err == nil {
			_, err = l.cri.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.Id})
		}
	}
	if err == nil {
		_, err = l.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	}
	return err
}

// removeGroups removes a group and the groups below it from every hierarchy, because the runtime creates
// groups in more hierarchies than Candor uses.
func removeGroups(path string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/*" + path)
	if unified := "/sys/fs/cgroup" + path; err == nil {
		if _, missing := os.Stat(unified); missing == nil {
			tops = append(tops, unified)
		}
	}
	for _, top := range tops {
		var dirs []string
		filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("rmdir %s: %w", dir, err)
			}
		}
	}
	return err
}

// endShims kills shims that containerd lost, because it was killed while it started them.
func (l *lab) endShims() {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), "containerd-shim") || !strings.Contains(string(line), l.path("containerd.sock")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmount unmounts all mounts in the lab, the latest first.
func (l *lab) unmount() {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		l.Error(err)
	}
	for _, line := range slices.Backward(strings.Split(string(text), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], l.dir+"/") {
			continue
		}
		if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil && !strings.HasSuffix(fields[4], "//deleted") {
			l.Errorf("unmount %s: %v", fields[4], err)
		}
	}
}

// clear removes all pods, daemons and groups.
func (l *lab) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // for hundreds of containers
	defer cancel()
	list, err := l.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		l.Errorf("%v; log of containerd:\n%s", err, l.engine.output())
	}
	for _, p := range list.GetItems() {
		if err := l.removeSandbox(ctx, p.Id); err != nil {
			l.Error(err)
		}
	}
	if l.plugin != nil {
		l.plugin.kill()
		if l.Failed() {
			l.Logf("log of candor nri:\n%s\nend of the log of containerd:\n%s", l.plugin.output(), last(l.engine.output(), 3000))
		}
	}
	l.conn.Close()
	l.engine.kill()
	l.endShims()
	tree := l.allPods()
	names, _ := tree.Groups()
	for _, name := range names {
		if err := tree.Group(name).End(); err != nil {
			l.Error(err)
		}
	}
	l.unmount()
	for _, path := range []string{l.parent, l.parent + "-run"} {
		if err := removeGroups(path); err != nil {
			l.Error(err)
		}
	}
}
