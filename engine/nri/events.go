package nri

import (
	"fmt"
	"strings"
	"time"

	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/metrics"
)

// RecordEvents makes the engine record Kubernetes Events about its decisions. It must be called before Run.
func (e *Engine) RecordEvents(to events.Sink) { e.events = to }

// eventPod returns the pod of an Event. The pod has a sandbox in the runtime of this node.
func eventPod(p *Pod) events.Pod {
	return events.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// recordDowngrade records an Event about a sensitive container that is treated as flexible.
func (e *Engine) recordDowngrade(p *Pod, ctr *Container, why string) {
	reason, remedy := events.DowngradedRequestNotLimit, "set its CPU request to its limit"
	if downgradeReason(&ctr.CPU) == metrics.NoLimit {
		reason, remedy = events.DowngradedNoLimit, "set a CPU limit, and the same CPU request"
	}
	e.events.Pod(eventPod(p), reason, fmt.Sprintf("container %s is treated as flexible: %s; %s, or remove the class sensitive", fullName(p, ctr), why, remedy))
}

// recordRefusal records an Event about a container that the engine refuses.
func (e *Engine) recordRefusal(p *Pod, ctr *Container, err error) {
	e.events.Pod(eventPod(p), events.CPUsRefused, refusalText(err)+nextStep(refusalReason(p, ctr, err)))
}

// recordResizeRefusal records an Event about a resize that the engine refuses.
func (e *Engine) recordResizeRefusal(p *Pod, ctr *Container, err error) {
	e.events.Pod(eventPod(p), events.CPUResizeRefused, "resize of "+refusalText(err)+"; it keeps its CPUs and its limit"+nextStep(refusalReason(p, ctr, err)))
}

// refusalText returns the text of a refusal without the prefix for Events of the kubelet. Events of Candor name Candor anyway.
func refusalText(err error) string { return strings.TrimPrefix(err.Error(), "candor: ") }

// nextStep returns the remedy for a refusal, unless its error contains one.
func nextStep(r metrics.Reason) string {
	switch r {
	case metrics.NoCapacity, metrics.ViewImpossible:
		return "; use another node, a smaller limit, or candor.dev/policy: best-effort"
	case metrics.BadAnnotation, metrics.BadRequest:
		return "; correct the settings of the pod"
	case metrics.OthersCPUs: // the error names the remedies
		return ""
	default:
		return "; see the log of candor nri on the node"
	}
}

const (
	// awayPatience is the time without a connection after which there is an Event about the node. A restart of the runtime takes
	// less.
	awayPatience = 30 * time.Second
	// shortConnection is the maximum duration of a connection in which the plugin has not worked. It is the timeout of NRI's
	// synchronization.
	shortConnection = 2 * time.Second
)

// An absence is the time since the plugin was last connected to a runtime.
type absence struct {
	since    time.Time
	reminder events.Reminder
}

func newAbsence() *absence { return &absence{since: time.Now()} }

// recordAbsence records an Event about the node if the plugin is not connected for a longer time. end is the end of the last
// attempt or connection.
func (e *Engine) recordAbsence(a *absence, socket string, end *ending) {
	if end.connected && end.lasted > shortConnection {
		*a = *newAbsence()
	}
	note := ""
	switch {
	case e.flapping.Load():
		note = "the container runtime has ended repeatedly right after candor nri connected to " + socket + ": check the runtime's log"
	case time.Since(a.since) >= awayPatience:
		note = fmt.Sprintf("candor nri is not connected to the container runtime, so new containers start on all CPUs or are refused: %v; check: %s", end.err, remedyFor(end.err))
	}
	if a.reminder.IsDue(note) {
		e.events.Node(events.CandorNotConnected, note)
	}
}
