package publish

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/spec"
)

// A viewWatch is a Source that records Events about the sensitive containers that do not see the CPUs that their limits need. It
// is not safe for concurrent use.
type viewWatch struct {
	Source
	events events.Sink
	wrong  map[string]*wrongView // by ID of the container
}

// A wrongView is a container that does not see the CPUs that its limit needs.
type wrongView struct {
	since    time.Time
	reminder events.Reminder
}

// viewPatience is the time for which a view must be wrong before there is an Event. The state can change between its reading and
// the observation of the container.
const viewPatience = 5 * time.Second

// WatchViews returns a Source for ReportOf that also records Events about wrong views of the containers that a report observes.
func WatchViews(from Source, to events.Sink) Source {
	return &viewWatch{from, to, map[string]*wrongView{}}
}

// Snapshot also forgets the containers that have ended.
func (w *viewWatch) Snapshot() (*host.Snapshot, error) {
	s, err := w.Source.Snapshot()
	if err != nil {
		return nil, err
	}
	for id := range w.wrong {
		if _, err := s.Grant(id); err != nil {
			delete(w.wrong, id)
		}
	}
	return s, nil
}

// Observe observes a container, and records an Event if its view is wrong.
func (w *viewWatch) Observe(g *host.Grant) (host.Observation, error) {
	o, err := w.Source.Observe(g)
	if err != nil {
		return o, err
	}
	note := viewFault(g, &o)
	if note == "" {
		delete(w.wrong, g.ID)
		return o, nil
	}
	is := w.wrong[g.ID]
	if is == nil {
		is = &wrongView{since: time.Now()}
		w.wrong[g.ID] = is
	}
	if time.Since(is.since) >= viewPatience && is.reminder.IsDue(note) {
		recordPod(w.events, &g.Engine, events.CPUViewWrong, note)
	}
	return o, nil
}

// viewFault returns why a sensitive container does not see the CPUs that its limit needs, with a remedy, or "". As in the metric
// candor_container_view_mismatch, a container that restricts its own affinity is no fault.
func viewFault(g *host.Grant, o *host.Observation) string {
	has, wants, name := g.CPUs.Count(), g.Limit.CPUs(), g.DisplayName()
	files, isKnown := o.Files()
	switch {
	case g.Class != hybrid.Sensitive:
		return ""
	case has != wants && !g.Lost.IsEmpty():
		return fmt.Sprintf("container %s has %d CPUs and a limit of %v, because the CPUs %v went offline: bring them online, or restart the pod on another node", name, has, g.Limit, g.Lost)
	case has != wants:
		return fmt.Sprintf("container %s has %d CPUs and a limit of %v, because no other CPUs were free: use candor.dev/policy: strict, or restart the pod on another node", name, has, g.Limit)
	case g.View == spec.ViewAffinity || o.IsHidden || !isKnown && o.Note == "" || isKnown && files.Count() == has:
		return ""
	case o.Note != "":
		return fmt.Sprintf("container %s sees %v CPUs, and its limit is %v: %s", name, o.Summary(), g.Limit, o.Note)
	default:
		return fmt.Sprintf("container %s sees %v CPUs, and its limit is %v: candor inspect on the node shows the cause", name, o.Summary(), g.Limit)
	}
}

// RecordRepairs records Events about the containers whose settings an operation has restored. It never blocks.
func (p *Publisher) RecordRepairs(r *host.Report) {
	for i := range r.Repairs {
		recordPod(p.events, &r.Repairs[i].Engine, events.CPUsRepaired, fmt.Sprintf("container %s %s: another program writes its cgroup; "+
			"the kubelet must have cpuManagerPolicy: none, and no other NRI plugin may assign CPUs", r.Repairs[i].Engine.Name, r.Repairs[i].Change))
	}
}

// recordPod records an Event about the pod of a container. A container outside of pods has no Events.
func recordPod(to events.Sink, e *host.Engine, reason events.Reason, note string) {
	if name := podname.Parse(e.Name); e.Pod != "" && name.Pod != "" {
		to.Pod(events.Pod{Namespace: name.Namespace, Name: name.Pod, UID: e.Pod}, reason, note)
	}
}
