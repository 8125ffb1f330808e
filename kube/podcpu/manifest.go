package podcpu

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/candor-project/candor/kube"
)

// FromManifest reads the pod or the pod template that a manifest describes. An error is a single line.
func FromManifest(text []byte) (*Pod, error) {
	t, err := kube.PodTemplate(text)
	if err != nil {
		return nil, err
	}
	described, err := json.Marshal(t.Pod)
	if err != nil {
		return nil, fmt.Errorf("%w: the keys of the pod have to be words", kube.ErrManifest)
	}
	p := &Pod{}
	if err := json.Unmarshal(described, p); err != nil {
		return nil, fmt.Errorf("%w: %w", kube.ErrManifest, err)
	}
	if len(p.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%w: the pod has no containers", kube.ErrManifest)
	}
	p.Metadata.Namespace, p.Metadata.UID, p.Status = t.Namespace, "planned", Status{}
	if p.Metadata.Name == "" {
		p.Metadata.Name = t.Name
	}
	return p, p.check()
}

// check returns an error if the API server would reject the containers' names, requests or limits.
func (p *Pod) check() error {
	names := map[string]bool{}
	return p.each(func(c *Container, _ bool) error {
		if c.Name == "" || names[c.Name] {
			return errors.New("each container must have a name of its own")
		}
		if wrong := validation.IsDNS1123Label(c.Name); wrong != nil {
			return fmt.Errorf("container %.63q: must be lower case letters, digits and -", c.Name)
		}
		names[c.Name] = true
		for _, list := range []List{c.Resources.Requests, c.Resources.Limits} {
			for name, q := range list {
				if q.Sign() < 0 {
					return fmt.Errorf("container %s: %.63q: less than nothing", c.Name, name)
				}
			}
		}
		if limit, given := c.Resources.Limits[CPU]; given && limit.Cmp(c.Resources.Requests[CPU]) < 0 {
			return fmt.Errorf("container %s: it requests more CPU than its limit", c.Name)
		}
		return nil
	})
}
