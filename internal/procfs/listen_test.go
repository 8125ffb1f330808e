package procfs

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestListening(t *testing.T) {
	tcp := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:0016 0100007F:9000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
`
	if got := listeningIn(tcp, false); !slices.Equal(got, []string{"4711"}) {
		t.Errorf("TCP: %v, want only the first", got)
	}
	unix := `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/x
0000000000000000: 00000003 00000000 00000000 0001 03 22 /run/x
`
	if got := listeningIn(unix, true); !slices.Equal(got, []string{"21"}) {
		t.Errorf("unix: %v, want only the first", got)
	}
}

func listeningIn(text string, isUnix bool) (inodes []string) {
	for line := range strings.Lines(text) {
		if inode := listening([]byte(line), isUnix); inode != "" {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}

func FuzzListening(f *testing.F) {
	f.Add([]byte("0: 0:0 0:0 0A 0:0 0:0 0 0 0 4711 1\n"), false)
	f.Add([]byte("0: 2 0 00010000 1 1 21\n"), true)
	f.Fuzz(func(t *testing.T, line []byte, isUnix bool) {
		if inode := listening(line, isUnix); inode != "" && !strings.Contains(string(line), inode) {
			t.Errorf("%q: inode %q", line, inode)
		}
	})
}

// TestListens: this process counts as listening exactly while it has a listening socket.
func TestListens(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if listens, err := Listens(os.Getpid()); err != nil || !listens {
			t.Errorf("%s: %v, %v; want that it listens", network, listens, err)
		}
		l.Close()
		if listens, err := Listens(os.Getpid()); err != nil || listens {
			t.Errorf("%s closed: %v, %v; want that it does not", network, listens, err)
		}
	}
	if _, err := Listens(1 << 30); err == nil {
		t.Error("no such process: want an error")
	}
}
