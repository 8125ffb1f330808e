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
	// ReservationTimeout bounds the time in which a node must report a pod that is bound to it, such as "10m", the default: 1m to 24h. After
	// it, other pods get the room.
	ReservationTimeout string `json:"reservationTimeout"`
	// Defaults are default settings of containers: names and values as in annotations.
	Defaults map[string]string `json:"defaults"`
	// NodesToScore is the number of best nodes to evaluate for a pod without further constraints: 16 to 100, 64 by default; 0: as many as
	// kube-scheduler evaluates by default.
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
	mostNodes    = 100 // kube-scheduler evaluates a part of more nodes
)

// readArgs parses the arguments. Unknown and invalid arguments are errors.
func readArgs(obj runtime.Object) (o options, err error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return o, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	o.patience = defaultPatience
	if args.ReservationTimeout != "" {
		o.patience, err = time.ParseDuration(args.ReservationTimeout)
		if err != nil || o.patience < leastPatience || o.patience > mostPatience {
			return o, fmt.Errorf("args of plugin %s: reservationTimeout %.40q: must be 1m to 24h, such as 10m", Name, args.ReservationTimeout)
		}
	}
	o.nodesToScore = defaultNodes
	if n := args.NodesToScore; n != nil {
		if *n != 0 && (*n < leastNodes || *n > mostNodes) {
			return o, fmt.Errorf("args of plugin %s: nodesToScore %d: must be 16 to 100, or 0 for all nodes that kube-scheduler filters", Name, *n)
		}
		o.nodesToScore = *n
	}
	o.defaults = args.Defaults
	// A container without settings can only have errors of the defaults.
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
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(args); err != nil {
		return nil, fmt.Errorf("%w: must be reservationTimeout, defaults, nodesToScore", err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind them")
	}
	return args, nil
}
