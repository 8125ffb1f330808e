// Package client runs containers with the command line of the installed engine: docker, podman or nerdctl. The containers use
// Candor's OCI runtime (package oci). The package makes no decision about CPUs.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/candor-project/candor/internal/errline"
)

// Names are the engines, in the order in which Find tries them.
var Names = []string{"docker", "podman", "nerdctl"}

// patience bounds a call of an engine. The run of a container has no bound.
var patience = 2 * time.Minute

var (
	// ErrBadEngine means that the engine cannot run containers through Candor.
	ErrBadEngine = errors.New("bad engine")
	// ErrBadImage means that the image does not exist.
	ErrBadImage = errors.New("bad image")
	// ErrRefused means that the engine refused a call.
	ErrRefused = errors.New("refused")
)

// An Engine runs containers.
type Engine struct {
	Name    string `json:"name"`    // one of Names
	Path    string `json:"path"`    // path of its command
	Runtime string `json:"runtime"` // Candor's runtime, by the name or path that this engine needs
}

// Find returns the named engine, or for "" the first engine of Names that answers. The error is ErrBadEngine if the engine does
// not answer or has no runtime of Candor.
func Find(ctx context.Context, name string) (*Engine, error) {
	names := Names
	if name != "" {
		names = []string{name}
	}
	if name != "" && !slices.Contains(Names, name) {
		return nil, fmt.Errorf("%w %.60q: must be one of %s", ErrBadEngine, name, strings.Join(Names, ", "))
	}
	var silent error // error of the first installed engine
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		e := &Engine{Name: name, Path: path}
		if _, err := e.ask(ctx, "ps", "--quiet"); err == nil {
			return e, e.findRuntime(ctx)
		} else if silent == nil {
			silent = fmt.Errorf("%w: %s does not answer: %w", ErrBadEngine, name, err)
		}
	}
	if silent != nil {
		return nil, silent
	}
	return nil, fmt.Errorf("%w: no %s in the PATH", ErrBadEngine, strings.Join(names, ", nor "))
}

// runtimeProgram is the name under which candor acts as an OCI runtime.
const runtimeProgram = "candor-runc"

// findRuntime sets e.Runtime. For Docker, it is the name that candor setup gives to Candor's runtime. For other engines, it is
// the path of a program in the directory of this program or in PATH.
func (e *Engine) findRuntime(ctx context.Context) error {
	if e.Name == "docker" {
		e.Runtime = "candor"
		text, err := e.ask(ctx, "info", "--format", "{{json .Runtimes}}")
		var known map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal([]byte(text), &known)
		}
		if err != nil {
			return fmt.Errorf("%w: docker's runtimes: %w", ErrBadEngine, err)
		}
		if _, is := known[e.Runtime]; !is {
			return fmt.Errorf("%w: docker has no runtime candor; run candor setup docker, and then systemctl reload docker", ErrBadEngine)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if e.Runtime, err = exec.LookPath(filepath.Join(filepath.Dir(self), runtimeProgram)); err != nil {
		e.Runtime, err = exec.LookPath(runtimeProgram)
	}
	if err != nil {
		return fmt.Errorf("%w: no %s beside candor or in the PATH; run make install, or ln -s %s %s", ErrBadEngine, runtimeProgram,
			filepath.Base(self), filepath.Join(filepath.Dir(self), runtimeProgram))
	}
	return nil
}

// CheckImage reports a missing image as an error. It fetches nothing.
func (e *Engine) CheckImage(ctx context.Context, image string) error {
	if image == "" || strings.HasPrefix(image, "-") {
		return fmt.Errorf("%w %.60q: must be the name of an image", ErrBadImage, image)
	}
	if _, err := e.ask(ctx, "image", "inspect", image); err != nil {
		return fmt.Errorf("%w: %s has no %.200s; run %s pull %[3]s, or use another name", ErrBadImage, e.Name, image, e.Name)
	}
	return nil
}

// reserved are prefixes of the flags of create that the caller cannot set: CPUs, runtime and restart.
var reserved = []string{"--cpu", "--cgroup", "--runtime", "--restart", "--rm"}

// shares matches -c, the short form of --cpu-shares, also combined with switches as in -itc.
var shares = regexp.MustCompile(`^-[itP]*c`)

// CheckFlags refuses reserved flags.
func CheckFlags(flags []string) error {
	if len(flags) > 0 && !strings.HasPrefix(flags[0], "-") {
		return fmt.Errorf("%w: flags %.60q: must be flags of create, such as -v /data:/data", ErrBadEngine, flags[0])
	}
	for _, flag := range flags {
		for _, no := range reserved {
			if strings.HasPrefix(flag, no) || shares.MatchString(flag) {
				return fmt.Errorf("%w: flag %.60s: must not be -c, %s*; the experiment sets CPUs, runtime and restart", ErrBadEngine, flag, strings.Join(reserved, "*, "))
			}
		}
	}
	return nil
}

// A Container describes a container to create.
type Container struct {
	Image string
	Args  []string // arguments of the image's program, or a program and its arguments
	Env   []string // additional environment variables
	Label string   // KEY=VALUE
	Flags []string // more flags of the engine's create
}

// goodID matches the ID that an engine prints for a new container.
var goodID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Create creates a container that Candor's runtime will start. The engine's command is a separate process, which inherits held
// (the end of a pipe), if not nil. A reader of the other end thus notices when the command ends, even if this process has ended
// earlier.
func (e *Engine) Create(ctx context.Context, c Container, held *os.File) (id string, err error) {
	args := []string{"create", "--pull", "never", "--label", c.Label}
	if e.Name != "podman" { // command sets the flag in each call of Podman
		args = append(args, "--runtime", e.Runtime)
	}
	if e.Name != "nerdctl" { // discard the container's logs
		args = append(args, "--log-driver", "none")
	}
	for _, entry := range c.Env {
		args = append(args, "--env", entry)
	}
	text, err := e.askHolding(ctx, held, append(append(append(args, c.Flags...), c.Image), c.Args...)...)
	text = strings.TrimSpace(text)
	id = text[strings.LastIndexAny(text, " \n")+1:] // a warning may precede the ID
	if err == nil && !goodID.MatchString(id) {      // for example, the help of the engine
		err = fmt.Errorf("no container ID in %.60q", text)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s create: %w", ErrRefused, e.Name, err)
	}
	return id, nil
}

// Start returns the command that starts a container, prints its output and ends with the container.
func (e *Engine) Start(id string) *exec.Cmd {
	return e.command(context.Background(), "start", "--attach", id)
}

// A State is the state of a container in its engine.
type State struct {
	ExitCode   int
	OOMKilled  bool
	StartedAt  time.Time // zero: the container never started
	FinishedAt time.Time
}

// State reads the state of a container from the engine.
func (e *Engine) State(ctx context.Context, id string) (s State, err error) {
	text, err := e.ask(ctx, "container", "inspect", "--format", "{{json .State}}", id)
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s container inspect: %w", e.Name, err)
	}
	if s.StartedAt.Year() <= 1 {
		s.StartedAt = time.Time{}
	}
	return s, nil
}

// Remove stops and removes containers. A missing container is no error.
func (e *Engine) Remove(ctx context.Context, ids ...string) error {
	var errs []error
	for _, id := range ids {
		_, err := e.ask(ctx, "rm", "--force", "--volumes", id)
		if err != nil && !strings.Contains(strings.ToLower(err.Error()), "no such container") {
			errs = append(errs, fmt.Errorf("%s rm %s: %w", e.Name, id, err))
		}
	}
	return errline.Join(errs...)
}

// RemoveLabelled removes all containers with a label.
func (e *Engine) RemoveLabelled(ctx context.Context, label string) error {
	text, err := e.ask(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label)
	if err != nil {
		return fmt.Errorf("%s ps: %w", e.Name, err)
	}
	return e.Remove(ctx, strings.Fields(text)...)
}

// command returns a command line of the engine. It runs in a new session, so that a Ctrl-C that ends candor does not interrupt
// a call.
func (e *Engine) command(ctx context.Context, args ...string) *exec.Cmd {
	if e.Name == "podman" && e.Runtime != "" {
		args = append([]string{"--runtime", e.Runtime}, args...)
	}
	cmd := exec.CommandContext(ctx, e.Path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// ask calls the engine and returns its output.
func (e *Engine) ask(ctx context.Context, args ...string) (string, error) {
	return e.askHolding(ctx, nil, args...)
}

// askHolding calls the engine like ask. If held is not nil, the engine's command inherits this file, so the file stays open until the
// command ends.
func (e *Engine) askHolding(ctx context.Context, held *os.File, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer in %v", patience))
	defer cancel()
	cmd := e.command(ctx, args...)
	if held != nil {
		cmd.ExtraFiles = []*os.File{held}
	}
	text, err := e.output(cmd)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return text, err
}

// maxAnswer bounds the output of an engine, in bytes. The description of an image grows with its labels.
const maxAnswer = 4 << 20

// An answer keeps the first maxAnswer bytes that are written to it.
type answer struct{ bytes.Buffer }

func (a *answer) Write(text []byte) (int, error) {
	a.Buffer.Write(text[:min(len(text), maxAnswer-a.Len())])
	return len(text), nil
}

// ReadFrom replaces the method of bytes.Buffer, which would store more than maxAnswer bytes.
func (a *answer) ReadFrom(in io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{a}, in) }

// output runs a command and returns its output. The error is the first line of the command's error messages.
func (e *Engine) output(cmd *exec.Cmd) (string, error) {
	var out, errOut answer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if line := FirstLine(errOut.Bytes()); err != nil && line != "" {
		err = errors.New(line)
	}
	return out.String(), err
}

// FirstLine returns the first line of an engine's error message, without prefixes such as "Error: ".
func FirstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	for _, prefix := range []string{"docker: ", "Error response from daemon: ", "Error: "} {
		line = strings.TrimPrefix(line, prefix)
	}
	return strings.TrimSpace(line)
}
