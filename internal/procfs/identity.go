package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// An Identity is the part of /proc/PID/status that tells whose process it is (proc_pid_status(5)). Every user may read it,
// without ptrace rights.
type Identity struct {
	// Comm is the name that the kernel took from the program's file at execve, 15 bytes at most. The process may change it.
	Comm string
	// IsRoot reports whether all four user ids are 0 in the reader's user namespace. A set-user-ID program that another
	// user started has a real user id other than 0; user id 0 of another user namespace is another number here.
	IsRoot bool
	// Namespaces counts the pid namespaces of the process from that of /proc inward: 1 in the reader's own.
	Namespaces int
}

// maxIdentity bounds the read. The list of groups, up to 65,536 entries, stands before the pid namespaces: a process with so
// many groups has no readable identity.
const maxIdentity = 8 << 10

// ReadIdentity reads the identity of a process, given its directory, such as /proc/1. The error is fs.ErrNotExist or ESRCH
// if the process has ended.
func ReadIdentity(dir string) (Identity, error) {
	f, err := os.Open(dir + "/status")
	if err != nil {
		return Identity{}, err
	}
	defer f.Close()
	text := make([]byte, maxIdentity)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Identity{}, err
	}
	id, err := parseIdentity(text[:n])
	if err != nil {
		err = fmt.Errorf("%s/status: %w", dir, err)
	}
	return id, err
}

func parseIdentity(text []byte) (id Identity, err error) {
	var uids []string
	for line := range bytes.Lines(text) { // the kernel escapes the line breaks of the name
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // cut off by the bound
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":\t")
		switch key {
		case "Name":
			id.Comm = value
		case "Uid":
			uids = strings.Fields(value)
		case "NSpid":
			id.Namespaces = len(strings.Fields(value))
		}
	}
	if len(uids) != 4 || id.Namespaces == 0 {
		return Identity{}, fmt.Errorf("want four user ids and NSpid in the first %d bytes", maxIdentity)
	}
	id.IsRoot = true
	for _, uid := range uids {
		id.IsRoot = id.IsRoot && uid == "0"
	}
	return id, nil
}
