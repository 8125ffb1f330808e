package record

import (
	"encoding/binary"
	"hash/crc32"
)

// fixChecksums corrects the checksums of a possible recording, because a fuzzer does not find correct
// checksums.
func fixChecksums(data []byte) {
	if len(data) < len(magic) {
		return
	}
	for rest := data[len(magic):]; len(rest) > blockHead; {
		n := int(binary.LittleEndian.Uint32(rest))
		if n > len(rest)-blockHead {
			return
		}
		body := rest[blockHead : blockHead+n]
		binary.LittleEndian.PutUint32(rest[4:], crc32.Checksum(body, castagnoli))
		rest = rest[blockHead+n:]
	}
}
