package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/engine/client"
)

// scriptedImage returns an image whose engine is a shell script, to provoke failures of the engine. commands
// are the cases of a case statement over the subcommand. dir is the working directory of the script.
func scriptedImage(t *testing.T, commands string) (image *Image, dir string) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, "docker")
	script := "#!/bin/sh\ncd " + dir + "\ncase $1 in\ncreate) printf '%012d%052d\\n' $$ 0 ;;\n" + commands + "\nesac\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Image{Name: "box", Engine: client.Engine{Name: "docker", Path: path, Runtime: "candor"}}, dir
}

// TestStuckStart: the call that starts a container never returns. The run ends after its timeout.
func TestStuckStart(t *testing.T) {
	l := openLab(t)
	image, _ := scriptedImage(t, "start) exec sleep 9999 ;;")
	w := Workload{Image: image, Timeout: 10 * time.Millisecond}
	runs, err := l.run(context.Background(), &w, &Setup{Kind: None})
	if err != nil || len(runs) != 1 || runs[0].Failure != "not ended after 10ms" {
		t.Errorf("%+v, %v; want a run that fails with a timeout", runs, err)
	}
}

// TestRefusedStartEndsOthers: a container of two cannot start. The run ends with the message of the engine
// and does not wait for the other container.
func TestRefusedStartEndsOthers(t *testing.T) {
	l := openLab(t)
	image, _ := scriptedImage(t, `start) if mkdir first 2>/dev/null; then echo no such program; exit 1; fi; exec sleep 9999 ;;
container) echo '{"StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"}' ;;`)
	w := Workload{Image: image, Timeout: 24 * time.Hour}
	_, err := l.run(context.Background(), &w, &Setup{Kind: None, Copies: 2})
	if !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "no such program") {
		t.Errorf("%v, want the message of the engine", err)
	}
}

// TestInterruptedBeforeStart: no container starts after the context was canceled.
func TestInterruptedBeforeStart(t *testing.T) {
	l := openLab(t)
	image, dir := scriptedImage(t, "start) mkdir started; exec sleep 9999 ;;")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := Workload{Image: image, Timeout: time.Hour}
	if _, err := l.run(ctx, &w, &Setup{Kind: None}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("the container was started")
	}
}
