package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/topology"
)

// maxMachineFile bounds the JSON of a machine, in bytes. A machine with 1024 CPUs takes 160 KB.
const maxMachineFile = 4 << 20

// machineForms describes the accepted values of --machine. machineUsage is the help text of this flag.
const (
	machineForms = "this, a description such as \"pack:2 numa:2 l3:2 core:4 pu:2\", a JSON file of candor topology, or a directory with a copied sys tree"
	machineUsage = "`MACHINE`: this, a hwloc description, a JSON file or a copy of /sys"
)

// loadMachine returns the machine for a value of --machine: "this" (the machine of this process), a file from candor topology
// -o json, a directory with a copy of another machine's sys/devices/system, or a description in hwloc's notation. A failure
// is bad input, except for "this".
func loadMachine(desc string) (*topology.Machine, error) {
	if desc == "this" {
		m, err := host.ReadMachine()
		if err != nil {
			return nil, hostError(fmt.Errorf("this machine's topology: %w", err))
		}
		return m, nil
	}
	m, err := loadOtherMachine(desc)
	if err != nil {
		return nil, badInput("--machine: %w", err)
	}
	return m, nil
}

// loadOtherMachine parses a value as a description first. A file whose name is also a description can be passed as ./name.
func loadOtherMachine(desc string) (*topology.Machine, error) {
	m, syntaxErr := topology.Parse(desc)
	if syntaxErr == nil {
		return m, nil
	}
	info, err := os.Stat(desc)
	switch {
	case err == nil && info.IsDir():
		m, err := topology.Read(os.DirFS(desc))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", desc, err)
		}
		return m, nil
	case err == nil:
		return readMachineFile(desc, info)
	case looksLikeFile(desc):
		return nil, fmt.Errorf("%w: must be %s", err, machineForms)
	}
	return nil, syntaxErr
}

// looksLikeFile reports whether a value is more likely a mistyped file name than a description.
func looksLikeFile(desc string) bool {
	return strings.ContainsRune(desc, '/') || strings.HasSuffix(desc, ".json")
}

// readMachineFile reads a machine's JSON.
func readMachineFile(name string, info fs.FileInfo) (*topology.Machine, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMachineFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxMachineFile {
		return nil, fmt.Errorf("%s: longer than %d MiB: must be a machine as candor topology -o json writes it", name, maxMachineFile>>20)
	}
	m := &topology.Machine{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w: must be a machine as candor topology -o json writes it", name, err)
	}
	return m, nil
}
