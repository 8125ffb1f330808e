package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuntimeClass: a pod with the RuntimeClass that candor setup containerd configures.
func TestRuntimeClass(t *testing.T) {
	w := newWrapped(t)
	dir := filepath.Dir(w.wrapper)
	program, err := os.ReadFile(w.candor)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "candor"), program, 0o755)
	}
	if err == nil {
		err = os.Symlink("candor", filepath.Join(dir, "candor-flexible-runc"))
	}
	if err != nil {
		t.Fatal(err)
	}
	shown, err := w.run(filepath.Join(dir, "candor"), "setup", "containerd", "--file", w.path("containerd.toml"))
	if err != nil || !strings.Contains(shown, "+SystemdCgroup = false") {
		t.Fatalf("%v\n%s", err, shown)
	}
	w.engine.kill()
	w.startEngine()
	for handler, want := range map[string]string{"candor": "sensitive 1500m 2", "candor-flexible": "flexible 1500m 2"} {
		w.handler = handler
		p, err := w.newPod(1500, 1500, nil)
		if err != nil {
			t.Fatal(err)
		}
		app, err := p.run("app", 1500, 1500, handler == "candor", "sleep", "1000000")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := w.run(w.candor, "ps")
		if err != nil || !strings.Contains(strings.Join(strings.Fields(rows), " "), "default/"+p.name+"/app "+want+" ") {
			t.Errorf("%s: want %q: %v\n%s", handler, want, err, rows)
		}
		if got := app.exec("busybox", "nproc"); got != "2" {
			t.Errorf("%s: nproc prints %s", handler, got)
		}
		if err := p.remove(); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := w.run(w.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}
