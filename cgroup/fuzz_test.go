package cgroup

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzParseMounts(f *testing.F) {
	for _, seed := range []string{apart, together, pure, container, split, "1 1 0:1 / relative rw - cgroup2 a b\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := parseMounts(bytes.NewReader(text))
		for _, h := range found {
			if err != nil || !filepath.IsAbs(h.mount) || h.v2 && len(h.controllers) > 0 {
				t.Errorf("%q: %+v, %v", text, h, err)
			}
		}
	})
}

func FuzzParseMembership(f *testing.F) {
	for _, seed := range []string{"9:name=systemd:/\n3:cpu,cpuacct:/a b/c:d\n0::/\n", "0::/../x", "1:cpu", "", ":::/", "x:cpu:a"} {
		f.Add([]byte(seed), "/docker/1")
	}
	f.Fuzz(func(t *testing.T, text []byte, root string) {
		groups, err := parseMembership(text)
		if err != nil {
			return
		}
		h := hierarchy{mount: "/sys/fs/cgroup", root: root}
		for _, path := range groups {
			if dir := h.dirOf(path); dir != h.mount && !strings.HasPrefix(dir, h.mount+"/") {
				t.Errorf("%q: %s is outside of the mount", path, dir)
			}
		}
	})
}

func FuzzParseUsage(f *testing.F) {
	for _, seed := range []string{"nr_periods 7\nthrottled_time 5000\n", "usage_usec 18446744073709551615\nburst_usec 9223372036854776\n", "x", " 1\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := parseUsage(text)
		if u.CPU < 0 || u.ThrottledTime < 0 || u.BurstTime < 0 || err != nil && u != (Usage{}) {
			t.Errorf("%q: %+v, %v", text, u, err)
		}
		usage, _ := parsePerCPU(text)
		for _, u := range usage {
			if u < 0 {
				t.Errorf("%q: %v", text, usage)
			}
		}
		_, _ = parseField(text, "populated")
	})
}

func FuzzParseMax(f *testing.F) {
	for _, seed := range []string{"max 100000", "50000 100000", "0 0", "-1 1", "max", "", "1 -1", "9223372036854775807 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quota, period, err := parseMax(text)
		if err == nil && (quota < noQuota || period <= 0) {
			t.Errorf("%q: %d %d", text, quota, period)
		}
	})
}
