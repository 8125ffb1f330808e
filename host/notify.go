package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// notifyPatience is how long a command of OnResize may run.
const notifyPatience = 30 * time.Second

// Notify tells a container of its new size as it asked for, and returns what
// was done in words. It is called after the operation, without the lock: what
// it starts may call candor itself.
func (h *Host) Notify(ctx context.Context, g *Grant, out, errOut io.Writer) (done string, err error) {
	onResize, err := h.store.ShownOnResize(g)
	if err != nil {
		return "", fmt.Errorf("%s has its new size, but could not be notified: %w", g.ID, err)
	}
	sig, command, err := spec.ParseOnResize(onResize)
	switch {
	case err != nil:
		return "", err
	case sig != 0:
		return h.signal(g, sig)
	case command == "":
		return "not told: started with --on-resize none", nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), notice(g)...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s has its new size, but %q failed: %w", g.ID, command, err)
	}
	return "told by " + strconv.Quote(command), nil
}

func (h *Host) signal(g *Grant, sig syscall.Signal) (string, error) {
	if !g.Main.Alive() {
		return "not told: its first process has ended", nil
	}
	if err := syscall.Kill(g.Main.PID, sig); err != nil {
		return "", fmt.Errorf("%s has its new size, but could not be told: signal process %d: %w", g.ID, g.Main.PID, err)
	}
	return fmt.Sprintf("told by signal %v to process %d", sig, g.Main.PID), nil
}

// notice is the environment of a command of OnResize.
func notice(g *Grant) []string {
	return []string{
		"CANDOR_NAME=" + g.ID,
		"CANDOR_PID=" + strconv.Itoa(g.Main.PID),
		"CANDOR_CPUS=" + strings.TrimSpace(g.CPUs.String()),
		"CANDOR_CPU_COUNT=" + strconv.Itoa(g.VisibleCPUs()),
		"CANDOR_LIMIT=" + hybrid.Milli(g.Limit).String(),
	}
}
