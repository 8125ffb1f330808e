package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/candor-project/candor/kube/profile"
)

// Args are the arguments of the plugin in kube-scheduler's configuration, under pluginConfig.
type Args struct {
	// ReservationTimeout is the time in which a node must report a pod that was placed on it, from 1m to 24h; "" is the default, 10m. After
	// the timeout, other pods can get the reserved CPUs.
	ReservationTimeout string `json:"reservationTimeout"`
	// Defaults maps names of settings to their default values, in the format of annotations.
	Defaults map[string]string `json:"defaults"`
	// NodesToScore is the number of nodes that kube-scheduler evaluates for a pod without node constraints, from 16 to 100. Candor
	// preselects the best nodes. nil is the default, 64. 0 disables the preselection.
	NodesToScore *int `json:"nodesToScore"`
}

// options are the parsed arguments, with defaults.
type options struct {
	reservationTimeout time.Duration
	defaults           profile.Values

	nodesToScore int
}

// isEqual reports whether two options are equal.
func (o *options) isEqual(p *options) bool {
	return o.reservationTimeout == p.reservationTimeout && o.nodesToScore == p.nodesToScore && maps.Equal(o.defaults, p.defaults)
}

const (
	defaultTimeout = 10 * time.Minute
	minTimeout     = time.Minute
	maxTimeout     = 24 * time.Hour

	defaultNodes = 64
	minNodes     = 16
	maxNodes     = 100 // of more than 100 nodes, kube-scheduler would evaluate only a part
)

// readArgs parses and checks the arguments. Unknown and invalid arguments are errors.
func readArgs(obj runtime.Object) (o options, err error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return o, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	o.reservationTimeout = defaultTimeout
	if args.ReservationTimeout != "" {
		o.reservationTimeout, err = time.ParseDuration(args.ReservationTimeout)
		if err != nil || o.reservationTimeout < minTimeout || o.reservationTimeout > maxTimeout {
			return o, fmt.Errorf("args of plugin %s: reservationTimeout %.40q: must be 1m to 24h, such as 10m", Name, args.ReservationTimeout)
		}
	}
	o.nodesToScore = defaultNodes
	if n := args.NodesToScore; n != nil {
		if *n != 0 && (*n < minNodes || *n > maxNodes) {
			return o, fmt.Errorf("args of plugin %s: nodesToScore %d: must be 16 to 100, or 0 for all nodes that kube-scheduler filters", Name, *n)
		}
		o.nodesToScore = *n
	}
	o.defaults = args.Defaults
	// The container has no other settings, so an error can only be about the defaults.
	if _, err := profile.Resolve(&profile.Pod{}, profile.Container{}, nil, nil, o.defaults); err != nil {
		return o, fmt.Errorf("args of plugin %s: defaults: %w", Name, err)
	}
	return o, nil
}

func decodeArgs(obj runtime.Object) (*Args, error) {
	args := &Args{}
	if obj == nil {
		return args, nil
	}
	raw, ok := obj.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("the type is %T: must have the fields reservationTimeout, defaults, nodesToScore", obj)
	}
	text := raw.Raw
	if raw.ContentType == runtime.ContentTypeYAML {
		var err error
		if text, err = yaml.YAMLToJSONStrict(text); err != nil {
			return nil, err
		}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return args, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(args); err != nil {
		return nil, fmt.Errorf("%w: must be reservationTimeout, defaults, nodesToScore", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be a single JSON object")
	}
	return args, nil
}
