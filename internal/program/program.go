// Package program finds programs of the machine and reads their versions. It runs a program only if root or the caller owns its file,
// and no other user can write the file.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// dirs are the usual directories of programs.
var dirs = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// Find returns the path of a program in a usual directory below a root directory, or "".
func Find(root, name string) string {
	for _, dir := range dirs {
		path := filepath.Join(root, dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// A Version is the version of a program or of the kernel. The zero value is an unknown version.
type Version struct{ Major, Minor int }

// Before reports whether the version is known and older than major.minor.
func (v Version) Before(major, minor int) bool {
	return v != Version{} && (v.Major < major || v.Major == major && v.Minor < minor)
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

var versionForm = regexp.MustCompile(`(?:^|\s)v?((\d{1,4})\.(\d{1,4})[^\s,]*)`)

// ParseVersion returns the first version in a text, and the part of the text that contains this version.
func ParseVersion(text string) (v Version, part string) {
	match := versionForm.FindStringSubmatch(text)
	if match == nil {
		return v, ""
	}
	v.Major, _ = strconv.Atoi(match[2])
	v.Minor, _ = strconv.Atoi(match[3])
	return v, match[1]
}

// ReadVersion returns the version that a program prints with --version. Like Output, it runs the program only if root or the caller owns
// its file, and no other user can write the file.
func ReadVersion(ctx context.Context, file string) (v Version, part string, err error) {
	out, err := Output(ctx, file, "--version")
	if err != nil {
		return v, "", err
	}
	if v, part = ParseVersion(out); part == "" {
		return v, "", fmt.Errorf("%s --version prints no version: %.40q", file, out)
	}
	return v, part, nil
}

// waitDelay is the time that Output waits for the output of a killed program's children.
const waitDelay = 40 * time.Millisecond

// Output returns the first 4 KiB that a program prints. It runs the program only if root or the caller owns its file, and no other user
// can write the file. It kills the program when ctx is done.
func Output(ctx context.Context, file string, args ...string) (string, error) {
	fd, err := unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: file, Err: err}
	}
	opened := os.NewFile(uintptr(fd), file)
	defer opened.Close()
	if err := onlyCallerWrites(fd); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	// Execute the open file, which was checked. The path can lead to another file by now. In the new process, the file has descriptor 3,
	// the first after the standard files.
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", args...)
	cmd.Args[0], cmd.ExtraFiles = file, []*os.File{opened}
	var out limitedBuffer
	cmd.Stdout, cmd.Env, cmd.WaitDelay = &out, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, waitDelay
	if err := cmd.Run(); err != nil {
		if at := (*fs.PathError)(nil); errors.As(err, &at) {
			err = at.Err
		}
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return out.String(), nil
}

// onlyCallerWrites returns an error unless the open file is a plain file that root or the caller owns, and that no other user can
// write.
func onlyCallerWrites(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("not a plain file")
	case int(stat.Uid) != 0 && int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0:
		return errors.New("other users can write this program, so candor does not run it")
	}
	return nil
}

// A limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	const limit = 4 << 10
	b.Buffer.Write(p[:min(len(p), max(limit-b.Len(), 0))])
	return len(p), nil
}
