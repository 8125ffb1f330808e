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

// Args is what kube-scheduler's configuration says of the plugin, under pluginConfig.
type Args struct {
	// ReservationTimeout is how long a node may take to report a pod that is bound to it, as in
	// "10m", which is the default: 1m to 24h. Then the room is given to others.
	ReservationTimeout string `json:"reservationTimeout"`
	// Defaults are settings of containers for which nobody says them: names and values as in annotations.
	Defaults map[string]string `json:"defaults"`
	// NodesToScore is how many of the best nodes a pod is looked at on, where nothing is said of it but what it asks
	// for: 16 to 100, 64 by default; 0: on as many as kube-scheduler looks at without.
	NodesToScore *int `json:"nodesToScore"`
}

// options are the arguments as they are meant.
type options struct {
	patience time.Duration
	defaults profile.Values

	nodesToScore int
}

// same reports whether two mean the same.
func (o *options) same(p *options) bool {
	return o.patience == p.patience && o.nodesToScore == p.nodesToScore && maps.Equal(o.defaults, p.defaults)
}

const (
	defaultPatience = 10 * time.Minute
	leastPatience   = time.Minute
	mostPatience    = 24 * time.Hour

	defaultNodes = 64
	leastNodes   = 16
	mostNodes    = 100 // of more kube-scheduler looks at a part
)

// readArgs reads the arguments. What is unknown or cannot be meant is an error.
func readArgs(obj runtime.Object) (o options, err error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return o, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	o.patience = defaultPatience
	if args.ReservationTimeout != "" {
		o.patience, err = time.ParseDuration(args.ReservationTimeout)
		if err != nil || o.patience < leastPatience || o.patience > mostPatience {
			return o, fmt.Errorf("args of plugin %s: reservationTimeout %.40q: want 1m to 24h, such as 10m", Name, args.ReservationTimeout)
		}
	}
	o.nodesToScore = defaultNodes
	if n := args.NodesToScore; n != nil {
		if *n != 0 && (*n < leastNodes || *n > mostNodes) {
			return o, fmt.Errorf("args of plugin %s: nodesToScore %d: want 16 to 100, or 0 for all that kube-scheduler looks at", Name, *n)
		}
		o.nodesToScore = *n
	}
	o.defaults = args.Defaults
	// Nothing but the defaults can be wrong of a container of which nobody says anything.
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
		return nil, fmt.Errorf("they are a %T: want fields reservationTimeout, defaults, nodesToScore", obj)
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
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(args); err != nil {
		return nil, fmt.Errorf("%w: want reservationTimeout, defaults, nodesToScore", err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind them")
	}
	return args, nil
}
