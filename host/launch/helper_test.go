package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/candor-project/candor/host"
)

// A helper whose candor run ends after the order exits without a message and without executing the program.
func TestHelperOfDeadCandor(t *testing.T) {
	for _, c := range []struct {
		name, view string
		orphan     bool
		want       string
	}{
		{"alive", "", false, "hello\n"},
		{"ended", "", true, ""},
		{"ended, with a view", "/no/such/view", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent, orders, output := helperOf(t, c.orphan)
			order := startOrder{Parent: parent, View: c.view, Path: "/bin/echo", Args: toBytes([]string{"echo", "hello"})}
			if err := json.NewEncoder(orders).Encode(order); err != nil {
				t.Fatal(err)
			}
			orders.Close()
			if got, err := io.ReadAll(output); err != nil || string(got) != c.want {
				t.Errorf("printed %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// helperOf starts a helper, whose parent is this process, or a shell that has ended.
func helperOf(t *testing.T, orphan bool) (parent int, orders, output *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, orders, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	output, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	script := `echo $$; exec "$0" ` + host.HelperCommand + ` 3`
	if orphan {
		script = `echo $$; "$0" ` + host.HelperCommand + ` 3 &`
	}
	cmd := exec.Command("/bin/sh", "-c", script, self)
	cmd.ExtraFiles = []*os.File{read}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	said.Close()
	t.Cleanup(func() { orders.Close(); output.Close() })
	var shell int
	if _, err := fmt.Fscanln(output, &shell); err != nil {
		t.Fatal(err)
	}
	if orphan {
		cmd.Wait()
		return shell, orders, output
	}
	t.Cleanup(func() { orders.Close(); cmd.Wait() })
	return os.Getpid(), orders, output
}
