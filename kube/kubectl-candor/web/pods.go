package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A listedPod has the fields of a pod that the page shows.
type listedPod struct {
	Metadata struct {
		Name, Namespace, UID string
	}
	Spec struct {
		NodeName                   string
		InitContainers, Containers []struct{ Name string }
	}
	Status struct{ Phase string }
}

func (p *listedPod) hasEnded() bool {
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// A foundPod is a pod in the answer to a search.
type foundPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node,omitempty"` // "": the pod waits
}

// podsAge is the time for which the list of pods serves all searches.
const podsAge = 15 * time.Second

// A podIndex lists the pods of the cluster when a user searches, at most once in podsAge. It is safe for concurrent use.
type podIndex struct {
	reader apiserver.Reader

	mu   sync.Mutex // held during the list: searches at the same time share it
	pods []foundPod
	at   time.Time
}

// A podsAnswer is the answer to a search.
type podsAnswer struct {
	Pods  []foundPod `json:"pods"`  // at most maxFound, waiting pods first
	Total int        `json:"total"` // number of all matching pods
	Nodes []string   `json:"nodes"` // nodes of all matching pods, by name
}

// maxFound bounds the pods in an answer.
const maxFound = 100

// find returns the pods whose namespace/name contains a text, in lower case.
func (x *podIndex) find(ctx context.Context, text string) (*podsAnswer, error) {
	pods, err := x.list(ctx)
	if err != nil {
		return nil, err
	}
	a := &podsAnswer{Pods: []foundPod{}, Nodes: []string{}}
	text = strings.ToLower(text)
	nodes := map[string]bool{}
	for _, p := range pods {
		if !strings.Contains(p.Namespace+"/"+p.Pod, text) {
			continue
		}
		if a.Total++; a.Total <= maxFound {
			a.Pods = append(a.Pods, p)
		}
		if p.Node != "" {
			nodes[p.Node] = true
		}
	}
	for node := range nodes {
		a.Nodes = append(a.Nodes, node)
	}
	slices.Sort(a.Nodes)
	return a, nil
}

// list returns the pods that have not ended: the waiting pods, then the others, by namespace and name.
func (x *podIndex) list(ctx context.Context) ([]foundPod, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pods != nil && time.Since(x.at) < podsAge {
		return x.pods, nil
	}
	pods := []foundPod{}
	err := eachPod(ctx, x.reader, "", func(p *listedPod) {
		pods = append(pods, foundPod{p.Metadata.Namespace, p.Metadata.Name, p.Spec.NodeName})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b foundPod) int {
		if (a.Node == "") != (b.Node == "") {
			return cmp.Compare(min(len(a.Node), 1), min(len(b.Node), 1))
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	x.pods, x.at = pods, time.Now()
	return pods, nil
}

// eachPod calls a function for each pod that has not ended, of a node or of all nodes ("").
func eachPod(ctx context.Context, r apiserver.Reader, node string, do func(*listedPod)) error {
	query := ""
	if node != "" {
		query = "fieldSelector=" + url.QueryEscape("spec.nodeName="+node)
	}
	return apiserver.EachPage(ctx, r, "/api/v1/pods", query, func(page []listedPod) {
		for i := range page {
			if !page[i].hasEnded() {
				do(&page[i])
			}
		}
	})
}

// namesOn returns the names of the containers on a node, by the ID in its report.
func namesOn(ctx context.Context, r apiserver.Reader, node string) (map[string]podname.Name, error) {
	names := map[string]podname.Name{}
	err := eachPod(ctx, r, node, func(p *listedPod) {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			id := nodecpu.Holder{Pod: p.Metadata.UID, Container: c.Name}.ID()
			names[id] = podname.Name{Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Container: c.Name}
		}
	})
	return names, err
}
