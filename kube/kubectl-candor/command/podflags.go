package command

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/podcpu"
)

// podFlags select the pod of plan.
type podFlags struct {
	pod      string // argument POD
	file     string
	cpu      milliFlag
	request  milliFlag
	memory   string
	class    hybrid.Class
	policy   hybrid.Policy
	topology hybrid.TopologyPolicy
}

func (f *podFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "manifest of the pod or its workload; - reads standard input")
	flags.Var(&f.cpu, "cpu", "CPU limit of a planned pod with a single container, such as 1.5")
	flags.Var(&f.request, "request", "CPU request of the container (default: the limit)")
	flags.StringVar(&f.memory, "memory", "", "memory request, such as 512Mi")
	flags.TextVar(&f.class, "class", hybrid.Sensitive, "class of the container [sensitive|flexible]")
	flags.TextVar(&f.policy, "policy", hybrid.Strict, "policy of a sensitive container [strict|best-effort]")
	flags.TextVar(&f.topology, "topology", hybrid.Prefer, "topology policy [prefer|single-numa|single-l3|whole-cores|none]")
}

// A milliFlag is an amount of CPU, written as Kubernetes writes it.
type milliFlag hybrid.Milli

func (m *milliFlag) String() string { return hybrid.Milli(*m).String() }
func (m *milliFlag) Type() string   { return "CPU" }

// Set parses an amount such as 1.5 or 1500m.
func (m *milliFlag) Set(s string) error {
	v, err := hybrid.ParseMilli(s)
	*m = milliFlag(v)
	return err
}

// describe returns the pod that a manifest or the flags describe. With POD, it returns nil: the pod is in the cluster.
func (f *podFlags) describe(cmd *cobra.Command, args []string) (*podcpu.Pod, error) {
	if len(args) > 1 {
		return nil, badInput("%d arguments: must be at most 1, the POD", len(args))
	}
	count := len(args)
	for _, name := range []string{"filename", "cpu"} {
		if cmd.Flags().Changed(name) {
			count++
		}
	}
	if count != 1 || f.file == "" && len(args) == 0 && f.cpu == 0 { // an empty value can be an unset variable of a script
		return nil, badInput("must have one of POD, -f FILE and --cpu CPU")
	}
	if f.cpu == 0 {
		for _, name := range []string{"request", "memory", "class", "policy", "topology"} {
			if cmd.Flags().Changed(name) {
				return nil, badInput("--%s: add --cpu", name)
			}
		}
	}
	switch {
	case len(args) == 1:
		f.pod = args[0]
		return nil, nil
	case f.file == "":
		return f.ofFlags(cmd)
	}
	return readPod(cmd.InOrStdin(), f.file)
}

// maxManifest is the maximum size of a manifest in bytes. An API server accepts less.
const maxManifest = 4 << 20

// readManifest reads a file, or standard input for "-".
func readManifest(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		text, err := fileio.Read(name, maxManifest)
		if err != nil {
			return nil, badInput("-f: %w", err)
		}
		return text, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if len(text) > maxManifest {
		return nil, badInput("-f: standard input: more than %d bytes", maxManifest)
	}
	return text, err
}

// readPod reads the manifest of a pod or of its workload.
func readPod(in io.Reader, name string) (*podcpu.Pod, error) {
	text, err := readManifest(in, name)
	if err != nil {
		return nil, err
	}
	p, err := podcpu.FromManifest(text)
	if err != nil {
		return nil, badInput("-f %s: %w", name, err)
	}
	return p, nil
}

// ofFlags returns a pod with a single container from the flags.
func (f *podFlags) ofFlags(cmd *cobra.Command) (*podcpu.Pod, error) {
	p := &podcpu.Pod{}
	p.Metadata.Name, p.Metadata.UID = "planned", "planned"
	p.Metadata.Annotations = map[string]string{kube.PodKey("class"): f.class.String()}
	for name, value := range map[string]string{"policy": f.policy.String(), "topology": f.topology.String()} {
		if cmd.Flags().Changed(name) {
			p.Metadata.Annotations[kube.PodKey(name)] = value
		}
	}
	limits, requests := podcpu.List{}, podcpu.List{}
	limits[podcpu.CPU] = *resource.NewMilliQuantity(int64(f.cpu), resource.DecimalSI)
	requests[podcpu.CPU] = limits[podcpu.CPU]
	if cmd.Flags().Changed("request") {
		if f.request > f.cpu || f.class == hybrid.Sensitive {
			return nil, badInput("--request %v: must be at most --cpu, with --class flexible", &f.request)
		}
		requests[podcpu.CPU] = *resource.NewMilliQuantity(int64(f.request), resource.DecimalSI)
	}
	if f.memory != "" {
		memory, err := podcpu.Amount(f.memory)
		if err != nil || memory.Sign() < 0 {
			return nil, badInput("--memory %.60q: must be an amount such as 512Mi", f.memory)
		}
		requests[podcpu.Memory] = memory
	}
	p.Spec.Containers = []podcpu.Container{{Name: "app", Resources: podcpu.Resources{Limits: limits, Requests: requests}}}
	return p, nil
}

// placed sets the namespace of p and returns p. If p is nil, it reads the pod POD from the cluster.
func (f *podFlags) placed(ctx context.Context, a *access, c *cluster, p *podcpu.Pod) (*podcpu.Pod, error) {
	if p == nil {
		return readPodOf(ctx, a, c, f.pod)
	}
	return p, setNamespace(a, p)
}

// setNamespace sets the namespace of a pod from -n, the manifest or the context, in this order.
func setNamespace(a *access, p *podcpu.Pod) error {
	ofContext, err := a.namespace()
	if err != nil {
		return err
	}
	p.Metadata.Namespace = cmp.Or(*a.flags.Namespace, p.Metadata.Namespace, ofContext)
	if !isObjectName(p.Metadata.Namespace) {
		return badInput("namespace %.60q: must be the name of a namespace", p.Metadata.Namespace)
	}
	return nil
}

// readPodOf reads a pod from the namespace of -n or of the context.
func readPodOf(ctx context.Context, a *access, c *cluster, name string) (*podcpu.Pod, error) {
	namespace, err := a.namespace()
	if err != nil {
		return nil, err
	}
	if !isObjectName(name) {
		return nil, badInput("pod %.60q: must be the name of a pod", name)
	}
	p := &podcpu.Pod{}
	if err := c.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", namespace, name), p); err != nil {
		return nil, err
	}
	return p, nil
}
