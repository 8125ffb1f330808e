package nri

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// stuckLog is a log handler that blocks at the first line with a prefix, like a log whose reader has stopped.
type stuckLog struct {
	slog.Handler
	begin     string
	at, freed chan struct{}
}

func (l *stuckLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, l.begin) {
		close(l.at)
		<-l.freed
	}
	return nil
}

// TestSynchronizeDoesNotWaitForChecks blocks the log line of a check. Synchronize must reply before the
// checks of the kubelet and of containerd's configuration end.
func TestSynchronizeDoesNotWaitForChecks(t *testing.T) {
	l := newLab(t)
	log := &stuckLog{slog.NewTextHandler(new(strings.Builder), nil), "new containers without a connected plugin", make(chan struct{}), make(chan struct{})}
	e := NewEngine(l.host, DefaultConfig(), slog.New(log))
	here := &link{plugin: &plugin{e, func() {}}}
	answered := make(chan error, 1)
	go func() { _, err := here.Synchronize(ctx, nil, nil); answered <- err }()
	<-log.at
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Synchronize waits for the check of required_plugins")
	}
	close(log.freed)
}
