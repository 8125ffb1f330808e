package events

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/candor-project/candor/kube/apiserver"
)

// Controller is the reportingController of the Events.
const Controller = "candor.dev/nri"

const (
	groupVersion = "events.k8s.io/v1"
	nodeEvents   = "default" // namespace of the Events about nodes

	// Limits of the API server, in bytes (pkg/apis/core/validation/events.go of Kubernetes 1.37).
	maxInstance = 128
	maxNote     = 1024
	maxName     = validation.DNS1123SubdomainMaxLength
)

// A Pod identifies a pod in the cluster.
type Pod struct{ Namespace, Name, UID string }

// maxUID bounds the UID of a pod, in bytes. Kubernetes' UIDs have 36, those of static pods 32.
const maxUID = 128

// isValid reports whether Kubernetes accepts the names. They become parts of a path of the API.
func (p *Pod) isValid() bool {
	return validation.IsDNS1123Label(p.Namespace) == nil && validation.IsDNS1123Subdomain(p.Name) == nil && p.UID != "" && len(p.UID) <= maxUID
}

// A client writes Events through the API server. It implements api.
type client struct {
	*apiserver.Client
	node string
}

// An event has the fields of an Event of events.k8s.io/v1 that the client writes.
type event struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata"`
	EventTime           metav1.MicroTime `json:"eventTime"`
	Series              *eventSeries     `json:"series,omitempty"`
	ReportingController string           `json:"reportingController"`
	ReportingInstance   string           `json:"reportingInstance"`
	Action              string           `json:"action"`
	Reason              Reason           `json:"reason"`
	Regarding           regarding        `json:"regarding"`
	Note                string           `json:"note"`
	Type                string           `json:"type"`
}

// A regarding refers to the object of an Event.
type regarding struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// An eventSeries has the occurrences of an Event, at least 2.
type eventSeries struct {
	Count            int              `json:"count"`
	LastObservedTime metav1.MicroTime `json:"lastObservedTime"`
}

func (c *client) create(ctx context.Context, d *draft) (name string, err error) {
	e := c.eventOf(d)
	err = c.Do(ctx, http.MethodPost, eventsPath(e.Namespace), e, &struct{}{})
	if apierrors.IsAlreadyExists(err) {
		err = nil // an earlier attempt created the Event, and its response was lost
	}
	return e.Name, err
}

func (c *client) update(ctx context.Context, d *draft) error {
	patch := struct {
		Series *eventSeries `json:"series"`
	}{seriesOf(d)}
	return c.Do(ctx, http.MethodPatch, eventsPath(d.namespace())+"/"+d.name, patch, &struct{}{})
}

// eventsPath returns the path of the Events of a namespace in the API.
func eventsPath(namespace string) string {
	return "/apis/" + groupVersion + "/namespaces/" + namespace + "/events"
}

// namespace returns the namespace of an Event.
func (d *draft) namespace() string {
	if d.object == (Pod{}) {
		return nodeEvents
	}
	return d.object.Namespace
}

// eventOf returns the Event of a draft.
func (c *client) eventOf(d *draft) *event {
	e := &event{
		TypeMeta:            metav1.TypeMeta{APIVersion: groupVersion, Kind: "Event"},
		EventTime:           metav1.NewMicroTime(d.since),
		ReportingController: Controller, ReportingInstance: instanceOf(c.node),
		Action: d.reason.action(), Reason: d.reason, Type: d.reason.eventType(), Note: d.note,
		// The kubelet also uses the name of the node as the UID. kubectl describe node shows such Events.
		Regarding: regarding{APIVersion: "v1", Kind: "Node", Name: c.node, UID: c.node},
	}
	if d.object != (Pod{}) {
		e.Regarding = regarding{"v1", "Pod", d.object.Namespace, d.object.Name, d.object.UID}
	}
	if d.count > 1 {
		e.Series = seriesOf(d)
	}
	e.Namespace, e.Name = d.namespace(), nameOf(e.Regarding.Name, d.number)
	return e
}

func seriesOf(d *draft) *eventSeries { return &eventSeries{d.count, metav1.NewMicroTime(d.last)} }

// instanceOf returns the reportingInstance of a node's Events. The API server bounds it to 128 bytes.
func instanceOf(node string) string { return node[:min(len(node), maxInstance)] }

// nameOf returns the name of an Event about an object: the object's name and a number, as in Events of Kubernetes.
func nameOf(object string, number int64) string {
	suffix := fmt.Sprintf(".%x", number)
	return strings.TrimRight(object[:min(len(object), maxName-len(suffix))], ".-") + suffix
}

// clean returns a note that a terminal can show and that the API server accepts: a line of at most 1,024 bytes without control
// characters.
func clean(note string) string {
	note = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, note)
	const end = "…"
	if len(note) <= maxNote {
		return note
	}
	note = note[:maxNote-len(end)]
	for !utf8.ValidString(note) { // the cut is inside a character
		note = note[:len(note)-1]
	}
	return note + end
}
