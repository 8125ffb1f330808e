package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// An Identity is the part of /proc/PID/status with the owner of a process (proc_pid_status(5)). Every user can read it, without ptrace
// rights.
type Identity struct {
	// Comm is the name that the kernel took from the program's file at execve, 15 bytes at most. The process may change it.
	Comm string
	// Users are the real, effective, saved and file system user id, as numbers of the reader's user namespace: user id 0 of
	// another user namespace has another number here.
	Users [4]int
	// Namespaces is the number of nested PID namespaces of the process, counted from the PID namespace of /proc: 1 if the
	// process is in that PID namespace.
	Namespaces int
}

// IsUser reports whether all user IDs of the process equal uid. In a set-user-ID program they differ: the real user ID is the user that
// started the program.
func (id *Identity) IsUser(uid int) bool { return id.Users == [4]int{uid, uid, uid, uid} }

// maxIdentity bounds the read of the status file, in bytes. In this file, the list of groups, up to 65,536 entries, precedes the
// PID namespaces: a process with that many groups has no readable identity.
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
		return Identity{}, fmt.Errorf("no four user IDs and NSpid in the first %d bytes", maxIdentity)
	}
	for i, uid := range uids {
		if id.Users[i], err = strconv.Atoi(uid); err != nil {
			return Identity{}, fmt.Errorf("user id %.20q: %w", uid, strconv.ErrSyntax)
		}
	}
	return id, nil
}

// NameOf returns the name of a process for a message, quoted if it is not plain printable text: every process chooses its own
// name. "" means that the process has ended.
func NameOf(pid int) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	text := make([]byte, 64) // TASK_COMM_LEN is 16
	n, _ := io.ReadFull(f, text)
	return Printable(strings.TrimSuffix(string(text[:n]), "\n"))
}

// Printable returns the name of a process for a message, quoted if it is not plain printable text.
func Printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
