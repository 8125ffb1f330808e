package view

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// Shortened texts of /proc/cpuinfo from real machines.
const (
	x86Text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 800.000\npower management:\n\n" +
		"processor\t: 1\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2300.000\npower management:\n\n" +
		"processor\t: 10\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2300.000\npower management:\n\n"
	powerText = "processor\t: 0\ncpu\t\t: POWER7\nclock\t\t: 3.0MHz\n\n" +
		"processor\t: 4\ncpu\t\t: POWER7\nclock\t\t: 3.0MHz\n\n" +
		"timebase\t: 512000000\nplatform\t: pSeries\n"
	oldArmText = "Processor\t: ARMv7 Processor rev 0 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 1992.29\n\n" +
		"processor\t: 1\nBogoMIPS\t: 1992.29\n\nFeatures\t: swp half\nHardware\t: Highbank\n"
	mipsText  = "system type\t: X\nmachine\t\t: Y\nprocessor\t: 0\ncpu model\t: Z\n\nprocessor\t: 1\ncpu model\t: Z\n\n"
	loongText = "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\nglobal_id\t\t: 0\n\nprocessor\t\t: 1\nglobal_id\t\t: 1\n\n"
)

func TestRender(t *testing.T) {
	tests := []struct {
		name, text, cpus, want string
	}{
		{"one CPU", x86Text, "1",
			"processor\t: 1\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2300.000\npower management:\n\n"},
		{"ids with gaps", x86Text, "0,10",
			"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 800.000\npower management:\n\n" +
				"processor\t: 10\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2300.000\npower management:\n\n"},
		{"all", x86Text, "0-1,10", x86Text},
		{"global part of POWER stays", powerText, "4",
			"processor\t: 4\ncpu\t\t: POWER7\nclock\t\t: 3.0MHz\n\ntimebase\t: 512000000\nplatform\t: pSeries\n"},
		{"head and global part of old Arm stay", oldArmText, "1",
			"Processor\t: ARMv7 Processor rev 0 (v7l)\nprocessor\t: 1\nBogoMIPS\t: 1992.29\n\nFeatures\t: swp half\nHardware\t: Highbank\n"},
		{"head of MIPS stays", mipsText, "1", "system type\t: X\nmachine\t\t: Y\nprocessor\t: 1\ncpu model\t: Z\n\n"},
		{"head with a blank line", loongText, "1",
			"system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 1\nglobal_id\t\t: 1\n\n"},
		{"last line without its end", "processor\t: 0\nprocessor\t: 1", "1", "processor\t: 1\n\n"},
		{"a CPU twice is one CPU", "processor: 0\n\nprocessor: 0\n\n", "0", "processor: 0\n\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			info, err := parseCPUInfo([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := info.render(cpuset.MustParse(test.cpus))
			if err != nil {
				t.Fatal(err)
			}
			if got := unpadded(got); got != test.want {
				t.Errorf("got\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// unpadded removes the padding that gives all stanzas the same length.
func unpadded(text []byte) string {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func TestRenderRefuses(t *testing.T) {
	info, err := parseCPUInfo([]byte(x86Text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = info.render(cpuset.MustParse("1-3")); err == nil || !strings.Contains(err.Error(), "CPU 2-3 (offline?)") {
		t.Errorf("a CPU without a stanza: %v", err)
	}
	for _, text := range []string{"", "\n", "vendor_id\t: IBM/S390\nprocessor 0: version = FF\n", "processor\t: abc\n"} {
		if _, err := parseCPUInfo([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// TestTornReadCount: a read during a rewrite can return the start of a text and the end of another. All
// stanzas have the same length, so each such text has the right number of stanzas.
func TestTornReadCount(t *testing.T) {
	info, err := parseCPUInfo(machineText(130))
	if err != nil {
		t.Fatal(err)
	}
	old, _ := info.render(cpuset.MustParse("0-2,9"))
	moved, _ := info.render(cpuset.MustParse("2,9-10,129"))
	if len(old) != len(moved) {
		t.Fatalf("%d and %d bytes", len(old), len(moved))
	}
	for cut := range old {
		torn := "\n" + string(old[:cut]) + string(moved[cut:])
		if n := strings.Count(torn, "\nprocessor\t: "); n != 4 {
			t.Fatalf("cut at %d: %d CPUs, want 4", cut, n)
		}
	}
}

// TestStanzaLengthConstant: the length of a stanza does not change if a frequency has a digit more.
func TestStanzaLengthConstant(t *testing.T) {
	slow, err := parseCPUInfo([]byte(x86Text))
	if err != nil {
		t.Fatal(err)
	}
	fast, err := parseCPUInfo([]byte(strings.ReplaceAll(x86Text, "2300.000", "12300.000")))
	if err != nil {
		t.Fatal(err)
	}
	if slow.stanzaLength() != fast.stanzaLength() {
		t.Errorf("%d and %d bytes", slow.stanzaLength(), fast.stanzaLength())
	}
}

// TestRecordedMachines: on each recorded machine, a view has exactly the stanzas of its CPUs, and all other
// text of the file.
func TestRecordedMachines(t *testing.T) {
	machines, _ := filepath.Glob("../../shared/machines/*.tar.bz2")
	if len(machines) == 0 {
		t.Skip("no recorded machines in ../shared/machines")
	}
	for _, file := range machines {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.bz2"), func(t *testing.T) {
			text, err := exec.Command("tar", "-xjOf", file, "--wildcards", "*/proc/cpuinfo").Output()
			if err != nil {
				t.Skip("no /proc/cpuinfo was recorded")
			}
			info, err := parseCPUInfo(text)
			if err != nil {
				t.Fatal(err)
			}
			all := info.cpus()
			if want := strings.Count("\n"+string(text), "\nprocessor"); all.Count() != want {
				t.Errorf("%d CPUs, want %d", all.Count(), want)
			}
			whole, err := info.render(all)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := unpadded(whole), unpadded(text); got != want {
				t.Errorf("a view of all CPUs differs from the machine's text: %d and %d bytes", len(got), len(want))
			}
			some := cpuset.Of(all.First(), all.Last())
			part, err := info.render(some)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := parseCPUInfo(part); err != nil || back.cpus() != some || !bytes.Equal(back.tail, info.tail) {
				t.Errorf("a view of %v reads as %v, %v", some, back.cpus(), err)
			}
		})
	}
}

func FuzzCPUInfo(f *testing.F) {
	for _, text := range []string{x86Text, powerText, oldArmText, mipsText, loongText, "", "processor: 1\nprocessor:1\n\n\n"} {
		f.Add([]byte(text))
	}
	if text, err := os.ReadFile(hostCPUInfo); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		info, err := parseCPUInfo(text)
		if err != nil {
			return
		}
		all := info.cpus()
		if all.IsEmpty() {
			return // no ID fits into a Set
		}
		for _, view := range []cpuset.Set{all, cpuset.Of(all.Last())} {
			out, err := info.render(view)
			if err != nil {
				t.Fatalf("render %v: %v", view, err)
			}
			back, err := parseCPUInfo(out)
			if err != nil || back.cpus() != view || len(back.stanzas) != view.Count() {
				t.Fatalf("a view of %v reads as %v, %v", view, back.cpus(), err)
			}
		}
	})
}
