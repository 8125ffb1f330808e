package main

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// TestSizes: sizes have the forms of Docker.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"512": 512, "512b": 512, "4k": 4096, "512m": 512 << 20, "512M": 512 << 20, "512MB": 512 << 20, "512MiB": 512 << 20, "1.5g": 3 << 29, "2 g": 2 << 30,
		"1t": 1 << 40, "0": 0,
	} {
		var s sizeFlag
		if err := s.Set(text); err != nil || s.bytes != want {
			t.Errorf("%q: %d, %v; want %d", text, s.bytes, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "-5m", "1e3", "infm", "nan", "512x", "5mm", "0x10", "99999999t", "1.2.3m", "512 m b"} {
		var s sizeFlag
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "such as 512m") {
			t.Errorf("%q: %d, %v", text, s.bytes, err)
		}
	}
	both := sizeFlag{unlimited: true}
	if err := both.Set("-1"); err != nil || both.bytes != -1 || both.String() != "-1" {
		t.Errorf("no limit: %+v, %v", both, err)
	}
	if err := both.Set("-2"); err == nil || !strings.Contains(err.Error(), "-1 for no limit") {
		t.Errorf("-2: %v", err)
	}
	for bytes, want := range map[int64]string{512 << 20: "512m", 2 << 30: "2g", 1536 << 20: "1536m", 4096: "4k", 5: "5b", cgroup.NoMemoryLimit: "none"} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

// TestEnvFlag: --env alone sets the usual variables, and with a name this variable too.
func TestEnvFlag(t *testing.T) {
	for text, want := range map[string]string{"true": "true", "false": "false", "NODE_OPTIONS": "NODE_OPTIONS"} {
		e := envFlag{true, []string{"X"}}
		if err := e.Set(text); err != nil || e.String() != want || e.isSet == (text == "false") {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"", "yes", "node_options", "PATH"} {
		var e envFlag
		if err := e.Set(text); err == nil || !strings.Contains(err.Error(), "must be true, false or NODE_OPTIONS") {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	for got, want := range map[string]string{
		count(0, "process", "processes"):         "0 processes",
		count(1, "process", "processes"):         "1 process",
		count(uint64(2), "process", "processes"): "2 processes",
		amount(1000):                             "1 CPU",
		amount(4000):                             "4 CPUs",
		amount(600):                              "600m",
		amount(1500):                             "1500m",
		limit(0):                                 "none",
		limit(1000):                              "1 CPU",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzSizeFlag: a size is refused, or its text is the same size again.
func FuzzSizeFlag(f *testing.F) {
	for _, text := range []string{"512m", "1.5g", "-1", "-5m", "1e3", "inf", "0x10", "..", "9223372036854775807", "4eib", " 7 KiB", "1.0000001m", "ib"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := sizeFlag{unlimited: true}
		if s.Set(text) != nil {
			return
		}
		again := sizeFlag{unlimited: true}
		if s.bytes < -1 || s.bytes >= maxSize || s.bytes != 0 && (again.Set(s.String()) != nil || again.bytes != s.bytes) {
			t.Errorf("%q is %d bytes, written as %q", text, s.bytes, s.String())
		}
	})
}
