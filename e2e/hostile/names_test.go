package hostile

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// evilName clears the screen, sets the title of the window and breaks the line.
const evilName = "\x1b[2J\x1b]0;P\n"

func init() {
	roles["names"] = func([]string) {
		runtime.LockOSThread()
		name := append([]byte(evilName), 0)
		unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
		os.WriteFile("/proc/self/comm", name[:len(name)-1], 0) // the first thread's, too
		go func() {                                            // candor top lists threads that run
			for n := 0; ; n++ {
			}
		}()
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
}

// No command prints the names and arguments of a container's processes as they are.
func TestHostileProcessNames(t *testing.T) {
	l := newLab(t)
	command := append([]string{"run", "--cpu", "0.5", "--name", "web", "--"}, role("names", evilName, "\u202e")...)
	l.launch(l.candor(command...))
	for _, args := range [][]string{
		{"ps"}, {"ps", "-o", "json"}, {"inspect", "web"}, {"inspect", "web", "-o", "json"}, {"map", "--sample", "0"}, {"map", "-o", "json", "--sample", "0"},
		{"top", "-n", "1"}, {"top", "-n", "1", "-o", "json"}, {"audit"}, {"audit", "-o", "json"}, {"release", "web"},
	} {
		got := run(t, l.candor(args...))
		forbidden := "\x1b\u202e"
		if slices.Contains(args, "json") {
			forbidden = "\x1b" // all other text is data
		}
		if text := got.out + got.errOut; text == "" || strings.ContainsAny(text, forbidden) || strings.Contains(text, "\nP") {
			t.Errorf("candor %v: %q", args, text)
		}
	}
}
