//go:build amd64 || arm64

package sample

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// sampleRecord returns a record of a sample as the kernel writes it.
func sampleRecord(mode uint64, abi uint64, register uint64) []byte {
	words := []uint64{unix.PERF_RECORD_SAMPLE | mode<<32, 0x1000, 1, abi}
	if abi != 0 {
		words = append(words, register)
	}
	words[0] |= uint64(len(words)*8) << 48
	var data []byte
	for _, w := range words {
		data = binary.NativeEndian.AppendUint64(data, w)
	}
	return data
}

// TestEachSample: records of samples are parsed also across the end of the ring; other records are skipped.
func TestEachSample(t *testing.T) {
	lost := binary.NativeEndian.AppendUint64(nil, unix.PERF_RECORD_LOST|24<<48)
	lost = append(lost, make([]byte, 16)...)
	var stream []byte
	for _, record := range [][]byte{sampleRecord(1, 2, 7), lost, sampleRecord(2, 2, 8), sampleRecord(1, 0, 0), sampleRecord(1, 2, 9)} {
		stream = append(stream, record...)
	}
	for start := uint64(0); start < 256; start += 8 {
		data := make([]byte, 256)
		for i, b := range stream {
			data[(start+uint64(i))%256] = b
		}
		var users int
		var arguments []uint64
		eachSample(data, start, start+uint64(len(stream)), func(isUser bool, argument uint64) {
			if isUser {
				users++
			} else {
				arguments = append(arguments, argument)
			}
		})
		if users != 1 || len(arguments) != 3 || arguments[0] != 7 || arguments[1] != ^uint64(0) || arguments[2] != 9 {
			t.Fatalf("start %d: got %d in user mode and %v, want 1 and 7, none, 9", start, users, arguments)
		}
	}
}

func FuzzEachSample(f *testing.F) {
	f.Add(sampleRecord(1, 2, 7), uint64(0), uint64(40))
	f.Fuzz(func(t *testing.T, data []byte, tail, head uint64) {
		if len(data) < 8 || len(data)%8 != 0 || tail%8 != 0 {
			return
		}
		samples := 0
		eachSample(data, tail, head, func(bool, uint64) { samples++ })
		if samples > len(data)/32 {
			t.Errorf("%d samples in %d bytes", samples, len(data))
		}
	})
}
