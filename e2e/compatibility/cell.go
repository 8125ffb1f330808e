// Package compatibility measures on which kernels and with which container engines Candor works, for the page
// docs/compatibility.md. It plans the cells, runs the tests that measure them, stores the results and writes the page. The tests
// are TestCompatibility in e2e, e2e/containerd and e2e/guest.
package compatibility

import (
	"fmt"
	"slices"
	"strings"
)

// A Machine is a column of the page.
type Machine struct {
	Name  string // part of the name of a cell
	Title string
	// Kernel is the beginning of the release of a guest's kernel, such as "6.12."; "": no guest, but the machine itself.
	Kernel  string
	Cgroup  int  // version of the cgroups in a guest
	Systemd bool // systemd creates the cgroups in a guest
}

// Host is the machine that runs make matrix.
const Host = "host"

// Machines returns the columns of the page in their order.
func Machines() []Machine {
	machines := []Machine{{Name: Host, Title: "host"}}
	for _, release := range []string{"6.1", "6.12"} {
		guest := Machine{Kernel: release + "."}
		for _, cgroup := range []int{1, 2} {
			guest.Cgroup = cgroup
			guest.Name, guest.Title = fmt.Sprintf("guest-%s-v%d", release, cgroup), fmt.Sprintf("Linux %s, cgroup v%d", release, cgroup)
			machines = append(machines, guest)
		}
		guest.Name, guest.Title, guest.Systemd = "guest-"+release+"-systemd", "Linux "+release+", cgroup v2 with systemd", true
		machines = append(machines, guest)
	}
	return machines
}

// An Engine is a row of the page.
type Engine struct {
	Name  string // part of the name of a cell
	Title string
	// Version is the beginning of the version that the engine reports.
	Version string
	// Package is the directory of the tests that measure the engine.
	Package string
	// Dir is the directory of the engine's programs below the cache of scripts/engines.sh; "-": another directory; "": the cache itself.
	Dir string
	// InGuests reports that the cells of guests are measured too.
	InGuests bool
}

const (
	ociTests = "e2e"
	criTests = "e2e/containerd"
	// guestTests start a guest, which runs one of the other tests.
	guestTests = "e2e/guest"
)

// Engines returns the rows of the page in their order.
func Engines() []Engine {
	return []Engine{
		{"containerd-1.6", "containerd 1.6, NRI", "1.6.", criTests, "-", false},
		{"containerd-1.7", "containerd 1.7, NRI", "1.7.", criTests, "containerd-1.7", false},
		{"containerd-2.4", "containerd 2.4, NRI", "2.4.", criTests, "-", true},
		{"cri-o-1.34", "CRI-O 1.34, NRI", "1.34.", criTests, "", false},
		{"docker-20.10", "Docker 20.10", "20.10.", ociTests, "-", false},
		{"docker-26.1", "Docker 26.1", "26.1.", ociTests, "docker-26.1", false},
		{"docker-29", "Docker 29", "v2.0.0", ociTests, "", false}, // the version of the engine's Go module
		{"podman-4.3-runc", "Podman 4.3 with runc", "4.3.", ociTests, "-", false},
		{"podman-4.3-crun", "Podman 4.3 with crun", "4.3.", ociTests, "-", false},
		{"runc", "runc alone", "", ociTests, "-", true},
		{"crun", "crun alone", "", ociTests, "-", false},
	}
}

// A Cell is a machine with an engine.
type Cell struct {
	Machine Machine
	Engine  Engine
}

// String returns the name of the cell, such as guest-6.12-v2/runc.
func (c Cell) String() string { return c.Machine.Name + "/" + c.Engine.Name }

// Package returns the directory of the tests that measure the cell.
func (c Cell) Package() string {
	if c.Machine.Name != Host {
		return guestTests
	}
	return c.Engine.Package
}

// Cells returns all cells that can be measured, by machine.
func Cells() (cells []Cell) {
	for _, m := range Machines() {
		for _, e := range Engines() {
			if m.Name == Host || e.InGuests {
				cells = append(cells, Cell{m, e})
			}
		}
	}
	return cells
}

// ParseCells returns the named cells in the order of Cells. A name without an engine, such as host, selects all cells of a machine.
func ParseCells(names []string) (cells []Cell, err error) {
	all := Cells()
	used := map[string]bool{}
	for _, c := range all {
		if slices.Contains(names, c.String()) || slices.Contains(names, c.Machine.Name) {
			cells = append(cells, c)
			used[c.String()], used[c.Machine.Name] = true, true
		}
	}
	for _, name := range names {
		if used[name] {
			continue
		}
		accepted := make([]string, len(all))
		for i, c := range all {
			accepted[i] = c.String()
		}
		return nil, fmt.Errorf("cell %.100q: must be a machine, or one of %s", name, strings.Join(accepted, ", "))
	}
	return cells, nil
}
