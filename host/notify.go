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

	"github.com/candor-project/candor/spec"
)

// notifyTimeout limits the run time of a command of OnResize.
const notifyTimeout = 30 * time.Second

// Notify notifies a container's program of its new size with the method of OnResize, and describes the result in done.
// The caller must not hold the lock, because the notification command can call candor itself.
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
		return "not notified: on-resize is none", nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), resizeEnv(g)...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s has its new size, but %q failed: %w", g.ID, command, err)
	}
	return "notified by " + strconv.Quote(command), nil
}

func (h *Host) signal(g *Grant, sig syscall.Signal) (string, error) {
	if !g.Main.Alive() {
		return "not notified: its first process has ended", nil
	}
	if err := syscall.Kill(g.Main.PID, sig); err != nil {
		return "", fmt.Errorf("%s has its new size, but could not be notified: signal process %d: %w", g.ID, g.Main.PID, err)
	}
	return fmt.Sprintf("notified by signal %v to process %d", sig, g.Main.PID), nil
}

// resizeEnv returns the environment of a command of OnResize.
func resizeEnv(g *Grant) []string {
	return []string{
		"CANDOR_NAME=" + g.ID,
		"CANDOR_PID=" + strconv.Itoa(g.Main.PID),
		"CANDOR_CPUS=" + strings.TrimSpace(g.CPUs.String()),
		"CANDOR_CPU_COUNT=" + strconv.Itoa(g.VisibleCPUs()),
		"CANDOR_LIMIT=" + g.Limit.String(),
	}
}
