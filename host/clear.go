package host

import (
	"context"
	"os"

	"github.com/candor-project/candor/internal/errline"
)

// Clear kills the programs in this host's own groups, and removes the groups, their parent and the
// state directory: for a host that was there for a time, as that of an experiment. Containers of engines are
// left alone.
func (h *Host) Clear(ctx context.Context) error {
	if _, err := os.Stat(h.store.dir); os.IsNotExist(err) {
		return h.tree.Remove()
	}
	lock, err := takeLock(ctx, h.store.lockFile(), h.patience)
	if err != nil {
		return err
	}
	defer lock.release()
	names, err := h.tree.Groups()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, h.tree.Group(name).End())
	}
	if err := errline.Join(append(errs, h.tree.Remove())...); err != nil {
		return err
	}
	return os.RemoveAll(h.store.dir)
}
