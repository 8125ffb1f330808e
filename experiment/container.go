package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/engine/client"
	"github.com/candor-project/candor/engine/oci"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// An Image is a container image with the program of a workload, and the engine that runs it.
type Image struct {
	Name   string        `json:"name"`
	Flags  []string      `json:"flags,omitempty"` // additional flags of the engine's create command
	Engine client.Engine `json:"engine"`
}

// String formats the image as a command line.
func (i *Image) String() string {
	return strings.Join(append(append([]string{i.Engine.Name, "run"}, i.Flags...), i.Name), " ")
}

// A container runs a workload from a container image. The engine creates it through Candor's OCI runtime. An oci.Override assigns the
// container to the lab and gives the container the allocation of the setup.
type container struct {
	lab      *Lab
	image    *Image
	id       string
	override oci.Override
	allowed  cpuset.Set // CPUs on which the container may run; empty: unknown
	removed  bool
}

// create creates the container of an image and does not start it.
func (l *Lab) create(w *Workload, s *Setup) (*container, error) {
	if err := l.place.noteEngine(&w.Image.Engine); err != nil {
		return nil, err
	}
	leash, _ := l.leash.(*os.File) // the engine's process inherits the leash, so the guard also waits for the end of this engine process
	id, err := w.Image.Engine.Create(context.Background(), client.Container{
		Image: w.Image.Name, Args: w.args(s.threads(l.usable.Count())), Env: w.variables(s), Label: l.place.label(), Flags: w.Image.Flags,
	}, leash)
	if err != nil {
		return nil, err
	}
	c := &container{lab: l, image: w.Image, id: id}
	a := s.allocation(oci.OverriddenName(id))
	c.override = oci.Override{StateDir: l.dir, Config: l.config(), Parent: l.parent, Request: a.Request, Spec: a.Spec}
	if err := c.override.Save(); err != nil {
		return nil, errline.Join(err, c.clean())
	}
	return c, nil
}

// finish starts the container and waits for its end. The run's time is the time between the container's start and its end, which
// the engine recorded. So it does not include the engine's own overhead. A container that cannot start is an error, not a failed
// run.
func (c *container) finish(ctx context.Context, w *Workload) (r Run, err error) {
	timed, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	var output []byte
	if ctx.Err() == nil {
		output, err = c.run(timed)
	}
	if err != nil {
		return r, err
	}
	c.readCPUs()
	var state client.State
	if timed.Err() == nil {
		if state, err = c.image.Engine.State(context.Background(), c.id); err != nil {
			return r, err
		}
	}
	err = c.remove() // the lab records the usage when the engine deletes the container
	if err == nil {
		err = c.override.Reload()
	}
	if err != nil {
		return r, err
	}
	u := c.override.Usage
	r.CPU, r.Periods, r.Throttled = u.CPU.Seconds(), u.Periods, u.Throttled
	switch {
	case ctx.Err() != nil:
		r.Failure = "interrupted"
	case timed.Err() != nil:
		r.Failure = fmt.Sprintf("not ended after %v", w.Timeout)
	case state.StartedAt.IsZero():
		return r, fmt.Errorf("%w: %s start: %s", client.ErrRefused, c.image.Engine.Name, client.FirstLine(output))
	case !c.override.Applied:
		return r, fmt.Errorf("%w: %s's runtime %s is not this candor; use candor-runc of the same version on this machine",
			client.ErrBadEngine, c.image.Engine.Name, c.image.Engine.Runtime)
	default:
		r.judge(containerFailure(&state, output), max(state.FinishedAt.Sub(state.StartedAt), 0), w, output)
	}
	return r, nil
}

// readCPUs reads the CPUs on which the container may run from the state of the lab, which has the container until the engine deletes it.
func (c *container) readCPUs() {
	s, err := c.lab.host.Snapshot()
	if err != nil {
		return
	}
	if g, err := s.Grant(c.override.Request.ID); err == nil {
		c.allowed = g.CPUs
	}
}

func (c *container) cpus() cpuset.Set { return c.allowed }

// run starts the container and returns its output after it has ended. If the context ends first, run kills the
// container.
func (c *container) run(ctx context.Context) (output []byte, err error) {
	tail, write, err := newTail()
	if err != nil {
		return nil, err
	}
	cmd := c.image.Engine.Start(c.id)
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit code of cmd can differ from the container's, which Engine.State returns
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		err = c.remove()
		cmd.Process.Kill() // the result is no longer needed
		<-ended
	}
	return tail.last(), err
}

// containerFailure describes why a container failed. It returns "" if the container succeeded.
func containerFailure(s *client.State, output []byte) string {
	switch {
	case s.FinishedAt.Before(s.StartedAt) && s.FinishedAt.Year() <= 1:
		return "the engine lost the container" + lastLine(output)
	case s.OOMKilled:
		return "out of memory"
	case s.ExitCode != 0:
		return fmt.Sprintf("exit code %d%s", s.ExitCode, lastLine(output))
	}
	return ""
}

// remove makes the engine kill and delete the container.
func (c *container) remove() error {
	if c.removed {
		return nil
	}
	err := c.image.Engine.Remove(context.Background(), c.id)
	c.removed = err == nil
	return err
}

func (c *container) clean() error {
	err := c.remove()
	release := c.lab.host.Release(context.Background(), c.override.Request.ID, true)
	if errors.As(release, new(*hybrid.Refusal)) { // the lab has already recorded the container's end
		release = nil
	}
	return errline.Join(err, release, c.override.Remove())
}

// label returns the label of all containers of a lab.
func (p place) label() string { return "candor.experiment=" + filepath.Base(p.dir) }

// engineFile returns the path of the file that names the containers' engine, through which the guard or the next lab
// removes the containers.
func (p place) engineFile() string { return p.dir + ".engine" }

func (p place) noteEngine(e *client.Engine) error {
	if _, err := os.Stat(p.engineFile()); err == nil {
		return nil
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return fileio.Replace(p.engineFile(), text)
}

// clearContainers removes the containers of a place and its engine file. If the engine does not answer, clearContainers
// does not retry: it removes the engine file anyway. An engine that answers has no time limit, because there can be
// many containers.
func (p place) clearContainers() error {
	text, err := fileio.Read(p.engineFile(), 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var e client.Engine
	if err == nil {
		err = fileio.DecodeStrict(text, &e)
	}
	if err == nil {
		err = e.RemoveLabelled(context.Background(), p.label())
	}
	return errline.Join(err, os.Remove(p.engineFile()))
}

// removeOverrides removes the overrides of a place. No container of the place may run any more.
func (p place) removeOverrides() error { return os.RemoveAll(oci.Overrides(p.dir)) }
