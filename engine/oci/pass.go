package oci

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/candor-project/candor/host"
)

// runtimePatience bounds the time of the real runtime's update, because all other operations wait for it.
const runtimePatience = 20 * time.Second

// pass lets the real runtime do the rest of the update under Candor's lock, so that no operation changes the grant while the
// runtime writes its values.
func (u *update) pass(ctx context.Context, h *host.Host, c *Call, real, name string) (code int, err error) {
	called := false
	within := h.WithGrantLocked(ctx, name, func(g *host.Grant) {
		called = true
		var mems string
		var args []string
		var input *os.File
		if mems, err = memsOf(h, g); err == nil {
			args, input, err = u.line(c, g, mems)
		}
		if err != nil {
			return
		}
		frozen, _ := h.Frozen(g)
		code, err = callUpdate(ctx, real, args, input)
		if (err != nil || code != 0) && !frozen {
			c.warn(thaw(h, g))
		}
	})
	if !called {
		return 0, within
	}
	c.warn(within) // the update is done; the next operation repairs the rest
	return code, err
}

// callUpdate runs the real runtime's update and closes its input.
func callUpdate(ctx context.Context, real string, args []string, input *os.File) (code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runtimePatience, fmt.Errorf("still running after %v", runtimePatience))
	defer cancel()
	if input != os.Stdin {
		defer input.Close()
	}
	return call(ctx, real, args, input)
}

// thaw thaws a container that the real runtime has left frozen. With systemd on cgroup v1, runc freezes a container
// while runc writes the settings. If runc is killed meanwhile, the container stays frozen.
func thaw(h *host.Host, g *host.Grant) error {
	frozen, err := h.Frozen(g)
	if err != nil || !frozen {
		return err
	}
	if err := h.Thaw(g); err != nil {
		return fmt.Errorf("%s: the runtime's update left it frozen, and Candor cannot thaw it: %w", g.DisplayName(), err)
	}
	return fmt.Errorf("%s: the runtime's update left it frozen: Candor has thawed it", g.DisplayName())
}
