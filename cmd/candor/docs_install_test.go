package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
)

var (
	doctorLine = regexp.MustCompile(`(?m)^# (?:\./)?candor(?:-linux-amd64)? doctor --for ([a-z]+)$`)
	podChange  = regexp.MustCompile(`--overrides='(.*)'`)
)

// TestInstallPaths: each way to install Candor in docs/install.md has at most 10 lines. It checks the machine with the doctor, and
// ends with a program that sees the CPUs of its limit, 1.5. TestInstallDocs of e2e runs the lines that need no distribution.
func TestInstallPaths(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, use := range map[string]doctor.Use{
		"Debian and Ubuntu": doctor.UseRun, "Fedora, RHEL and SUSE": doctor.UseRun, "Static binary": doctor.UseRun,
		"Docker and Podman": doctor.UseDocker, "Kubernetes": doctor.UseKubernetes,
	} {
		_, section, found := strings.Cut(string(page), "\n### "+heading+"\n")
		_, block, _ := strings.Cut(section, "```\n")
		block, _, _ = strings.Cut(block, "```\n")
		lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
		if !found || len(lines) > 10 || lines[len(lines)-1] != "2" || !strings.Contains(block, "nproc") || !strings.Contains(block, "1.5") && !strings.Contains(block, "1500m") {
			t.Errorf("%s: %d lines; want at most 10, with nproc at a limit of 1.5 and its output:\n%s", heading, len(lines), block)
		}
		if match := doctorLine.FindStringSubmatch(block); match == nil || match[1] != string(use) || !slices.Contains(doctor.Uses(), match[1]) {
			t.Errorf("%s: no line candor doctor --for %s:\n%s", heading, use, block)
		}
		if match := podChange.FindStringSubmatch(block); match != nil && !json.Valid([]byte(match[1])) {
			t.Errorf("%s: the pod is no JSON: %s", heading, match[1])
		}
	}
}
