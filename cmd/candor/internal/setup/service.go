package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// ServiceUnit is the name of the systemd unit of candor nri.
const ServiceUnit = "candor-nri.service"

// ViewUnit is the name of the systemd unit of candor view refresh.
const ViewUnit = "candor-view.service"

// A Service is a systemd service. The zero values of the last two fields stand for this machine.
type Service struct {
	Unit      string
	Systemctl string // program; default: systemctl in $PATH
	Booted    string // directory that exists if systemd runs the machine; default: /run/systemd/system
}

// A ServiceState is the state of a service, in systemd's words. The zero value means that there is no such unit, or that
// systemd does not run the machine.
type ServiceState struct {
	Active  string // such as active, inactive or failed
	Enabled string // such as enabled or disabled
}

// String returns "active, enabled", or "" for the zero value.
func (s ServiceState) String() string {
	if s == (ServiceState{}) {
		return ""
	}
	return s.Active + ", " + s.Enabled
}

// IsRunning reports whether the service may have a running process. This includes a service that starts, reloads, stops or waits for its
// next start.
func (s ServiceState) IsRunning() bool {
	return !slices.Contains([]string{"", "inactive", "failed"}, s.Active)
}

// IsOff reports whether the service does not run now and does not start at the next boot.
func (s ServiceState) IsOff() bool {
	return s == ServiceState{} || !s.IsRunning() && s.Enabled != "enabled"
}

// State reads the state of the service.
func (s *Service) State() (state ServiceState, err error) {
	if _, err := os.Stat(cmp.Or(s.Booted, "/run/systemd/system")); err != nil {
		return state, nil //nolint:nilerr // systemd does not run the machine
	}
	text, err := s.call("show", "--property=LoadState,ActiveState,UnitFileState", s.Unit)
	if errors.Is(err, exec.ErrNotFound) {
		return state, nil
	}
	if err != nil {
		return state, err
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	if values["LoadState"] != "loaded" {
		return state, nil
	}
	return ServiceState{cmp.Or(values["ActiveState"], "unknown"), cmp.Or(values["UnitFileState"], "static")}, nil
}

// Off stops the service and disables it at the next boot.
func (s *Service) Off() error {
	_, err := s.call("disable", "--now", s.Unit)
	return err
}

// On starts the service and enables it at the next boot. It does not wait until the service is ready.
func (s *Service) On() error {
	_, err := s.call("enable", s.Unit)
	if err == nil {
		_, err = s.call("start", "--no-block", s.Unit)
	}
	return err
}

func (s *Service) call(args ...string) (string, error) {
	var out, errOut bytes.Buffer
	cmd := exec.Command(cmp.Or(s.Systemctl, "systemctl"), args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(errOut.String()), "\n")
		if line == "" {
			return "", fmt.Errorf("systemctl %s: %w", args[0], err)
		}
		return "", fmt.Errorf("systemctl %s: %s: %w", args[0], line, err)
	}
	return out.String(), nil
}
