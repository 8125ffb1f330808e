package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/survey"
)

// A podAnswer is a pod and, if the pod waits, the refusals of the nodes.
type podAnswer struct {
	Namespace string             `json:"namespace"`
	Pod       string             `json:"pod"`
	Node      string             `json:"node,omitempty"` // "": the pod waits
	Scheduler string             `json:"scheduler"`
	Message   string             `json:"message,omitempty"` // of the scheduler
	Refusal   string             `json:"refusal,omitempty"` // of all nodes together; "": the pod fits on a node
	Nodes     []survey.Candidate `json:"nodes"`
	Notes     []string           `json:"notes"`
	Unread    []string           `json:"notLookedAt"` // facts that are not evaluated and can change the result
}

// podFacts are facts of a pod that podcpu.Pod does not have.
type podFacts struct {
	Spec   struct{ SchedulerName string }
	Status struct {
		Conditions []struct{ Type, Message string }
	}
}

// errNoPod is the error for a missing pod.
var errNoPod = errors.New("no pod of that name")

// explainPod returns a pod with the refusals of the nodes. The dry run reads all nodes and pods of the cluster.
func explainPod(ctx context.Context, r apiserver.Reader, namespace, name string) (*podAnswer, error) {
	var text json.RawMessage
	if err := r.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", namespace, name), &text); apierrors.IsNotFound(err) {
		return nil, errNoPod
	} else if err != nil {
		return nil, err
	}
	p, facts := &podcpu.Pod{}, &podFacts{}
	if err := errors.Join(json.Unmarshal(text, p), json.Unmarshal(text, facts)); err != nil {
		return nil, err
	}
	a := &podAnswer{Namespace: namespace, Pod: name, Node: p.Spec.NodeName, Scheduler: facts.Spec.SchedulerName, Nodes: []survey.Candidate{}, Notes: []string{}, Unread: []string{}}
	for _, c := range facts.Status.Conditions {
		if c.Type == "PodScheduled" {
			a.Message = c.Message
		}
	}
	switch {
	case p.HasEnded():
		a.Notes = append(a.Notes, "The pod has ended.")
		return a, nil
	case a.Node != "":
		a.Message = ""
		return a, nil
	}
	sources, err := survey.ReadSources(ctx, r, namespace)
	if err != nil {
		return nil, err
	}
	a.Notes = append(a.Notes, sources.Notes...)
	demand, err := podcpu.Read(p, sources.Context)
	if err != nil {
		a.Notes = append(a.Notes, err.Error()) // an invalid annotation is the reason why the pod waits
		return a, nil
	}
	a.Notes = append(a.Notes, demand.Conflicts...)
	s, err := survey.Read(ctx, r)
	if err != nil {
		return nil, err
	}
	result := s.Place(p, demand)
	a.Nodes = append(a.Nodes, result.Candidates...)
	if result.Best() == nil {
		a.Refusal = result.Refusal()
	}
	a.Unread = append(append(a.Unread, survey.ReadIgnored(ctx, r, p)...), s.Unseen()...)
	return a, nil
}
