package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/view"
)

// gainPrograms size a cache by half of the memory that they find, and fill it. The shell script gets the size from free, as
// start scripts of servers do; its cache is the buffer of tail.
var gainPrograms = []struct{ name, needs, script string }{
	{"free", "command -v free && command -v awk", `n=$(free -m | awk '/^Mem:/ {print int($2/2)}'); head -c "${n}M" /dev/zero | tail -c "${n}M" >/dev/null || exit $?; echo "filled $n MiB"`},
	{"node", "command -v node", `exec node -e 'const all=[]; for (let n=0; n < os.totalmem()/2; n += 1<<24) all.push(Buffer.alloc(1<<24, 1)); console.log("filled", all.length*16, "MiB")'`},
	{"psutil", python("import psutil"), "exec " + python("import psutil; n = psutil.virtual_memory().total//2 >> 20; cache = bytearray(b'1')*(n << 20); print('filled', n, 'MiB')")},
}

// gainLimit is the memory limit in bytes.
const gainLimit = 512 * mib

// TestMemoryGain: with a limit of 512 MiB, programs that size themselves by /proc/meminfo are killed without a view of the
// memory, and finish with it.
func TestMemoryGain(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	if dir := os.Getenv("CANDOR_VIEW_PROGRAMS"); dir != "" {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	machine, err := view.ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	if machine.Total < 4*gainLimit {
		t.Skipf("a limit of 512 MiB on a machine of %d MiB kills no program", machine.Total>>20)
	}
	for _, p := range gainPrograms {
		t.Run(p.name, func(t *testing.T) {
			needProgram(t, p.needs)
			for _, test := range []struct {
				view, out string
				code      int
			}{{"cpu", "", 137}, {"full", fmt.Sprintf("filled %d MiB", gainLimit/2/mib), 0}} {
				got := do(t, l.candor("run", "--cpu", "1", "--memory", "512m", "--memory-swap", "512m", "--view", test.view, "--", "sh", "-c", p.script))
				if got.code != test.code || strings.TrimSpace(got.out) != test.out {
					t.Errorf("view %s: %+v; want exit %d, %q", test.view, got, test.code, test.out)
				}
				t.Logf("view %s: exit %d, %s", test.view, got.code, got.out)
			}
		})
	}
	l.empty()
}
