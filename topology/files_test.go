package topology

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

func TestParseMask(t *testing.T) {
	tests := []struct {
		mask string
		want string // a list, or "error …"
	}{
		{"1", "0"},
		{"f", "0-3"},
		{"00000003", "0-1"},
		{"000,00000000,80000001", "0,31"},
		{"1,00000000", "32"},
		{"fc00,00000000", "42-47"},
		{"FFff", "0-15"},
		{"00000000", ""},
		{"80000000" + strings.Repeat(",00000000", 31), "1023"},
		{strings.Repeat("00000000,", 255) + "00000001", "0"},
		{"1" + strings.Repeat(",00000000", 31) + ",00000003", "0-1"}, // CPU 1024 cannot be in a set
		{"", "error must be a CPU mask"},
		{",", "error must be a CPU mask"},
		{"1,", "error must be a CPU mask"},
		{",00000001", "error must be a CPU mask"},
		{"1,0000001", "error must be a CPU mask"},
		{"000000001", "error must be a CPU mask"},
		{"0x1", "error must be a CPU mask"},
		{"-1", "error must be a CPU mask"},
		{"0-3", "error must be a CPU mask"},
		{"1 1", "error must be a CPU mask"},
	}
	for _, tt := range tests {
		got, err := parseMask([]byte(tt.mask))
		if want, isError := strings.CutPrefix(tt.want, "error "); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, %v; want an error with %q", tt.mask, got, err, want)
			}
		} else if err != nil || got.String() != tt.want {
			t.Errorf("%.40q: %q, %v; want %q", tt.mask, got, err, tt.want)
		}
	}
}

func TestParseIsolcpus(t *testing.T) {
	tests := []struct{ cmdline, want string }{
		{"", ""},
		{"quiet root=/dev/sda1", ""},
		{"isolcpus=2-3 quiet", "2-3"},
		{"isolcpus=1,3,5-6", "1,3,5-6"},
		{"isolcpus=nohz,domain,1-3", "1-3"},
		{"isolcpus=domain,managed_irq,7", "7"},
		{"isolcpus=nohz,1-3", ""}, // the scheduler still uses these CPUs
		{"isolcpus=managed_irq,nohz,1-3", ""},
		{"isolcpus=1 isolcpus=2", "2"},
		{"isolcpus=1 -- isolcpus=2", "1"},
		{`isolcpus="1-2"`, "1-2"},
		{`"isolcpus=1-2"`, "1-2"},
		{"isolcpus=6-N", "6-7"},
		{"isolcpus=all", "0-7"},
		{"isolcpus=0-7:2/4", "0-1,4-5"},
		{"isolcpus=all:1/2", "0,2,4,6"},
		{"isolcpus=5-20", "5-7"},
		{"isolcpus=9", ""},
		{"isolcpus=3-1", ""},
		{"isolcpus=1,x", ""},
		{"isolcpus=1-2:0/2", ""},
		{"isolcpus=1-2:3/2", ""},
		{"isolcpus=1:1/2", ""},
		{"isolcpus=", ""},
		{"isolcpus=domain", ""},
		{"isolcpus=0-4000000000", ""},
		{"isolcpus=0-2000000000:1/2000000000", "0"},
		{"xisolcpus=1", ""},
		{"isolcpus", ""},
	}
	for _, tt := range tests {
		if got := parseIsolcpus(tt.cmdline, cpuset.Range(0, 7)).String(); got != tt.want {
			t.Errorf("%q isolates %q, want %q", tt.cmdline, got, tt.want)
		}
	}
}
