//go:build amd64 || arm64

package sample

import (
	"maps"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// TestSnapshot: a snapshot has the whole content of a BPF map, also if the map has more keys than expected.
func TestSnapshot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creates BPF maps: needs root")
	}
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 16, ValueSize: 16, MaxEntries: 4096})
	if err != nil {
		t.Skipf("this kernel refuses it: %v", err)
	}
	defer m.Close()
	var s snapshot[fileKey, samplerIo]
	want := map[fileKey]samplerIo{}
	for n := range 3000 {
		if n == 0 || n == 1 || n == 10 || n == 2999 {
			if err := s.read(m, 1); err != nil || !maps.Equal(s.values, want) {
				t.Errorf("%d keys: %d keys, %v", n, len(s.values), err)
			}
		}
		key, value := fileKey{uint32(n), 7, uint64(3 * n)}, samplerIo{Read: uint64(n), Write: 1}
		if err := m.Put(&key, &value); err != nil {
			t.Fatal(err)
		}
		want[key] = value
	}
	for key := range want {
		if key.Process >= 5 {
			if err := m.Delete(&key); err != nil {
				t.Fatal(err)
			}
			delete(want, key)
		}
	}
	if err := s.read(m, 1); err != nil || !maps.Equal(s.values, want) {
		t.Errorf("after the deletion: %d keys, %v", len(s.values), err)
	}
}
