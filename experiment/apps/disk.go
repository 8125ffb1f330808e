package apps

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// chunk is the number of bytes that the disk application writes before it waits for the disk.
const chunk = 4 << 20

// useDisk writes chunks to the same position of a file, waits until each chunk is on the disk, and reads the chunk
// back. It needs disk space for one chunk.
func useDisk(chunks int, dir string) (sum uint64, err error) {
	file, err := os.CreateTemp(dir, "candor-app-*")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // no file remains, even after a crash
		return 0, err
	}
	data, back := make([]byte, chunk), make([]byte, chunk)
	for i := range chunks {
		random := randomOf(i)
		for at := 0; at < chunk; at += 512 {
			data[at] = byte(random.Uint32())
		}
		if _, err := file.WriteAt(data, 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		// Drop the chunk from the page cache. ReadAt then reads from the disk, except for pages that the kernel
		// retains.
		if err := unix.Fadvise(int(file.Fd()), 0, chunk, unix.FADV_DONTNEED); err != nil {
			return 0, fmt.Errorf("fadvise: %w", err)
		}
		if _, err := file.ReadAt(back, 0); err != nil && err != io.EOF {
			return 0, err
		}
		if wrote, read := crc32.ChecksumIEEE(data), crc32.ChecksumIEEE(back); wrote != read {
			return 0, fmt.Errorf("%s: chunk %d: read %08x, wrote %08x", dir, i, read, wrote)
		}
		sum += uint64(crc32.ChecksumIEEE(back))
	}
	return sum, nil
}
