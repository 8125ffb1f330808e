package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/survey"
)

// podFlags select the pod of candor plan --cluster.
type podFlags struct {
	clusterFlags
	file     string
	pod      string
	cpu      milliFlag
	request  milliFlag
	memory   string
	class    hybrid.Class
	policy   *hybrid.Policy // that of candor plan
	topology hybrid.TopologyPolicy
}

// ofPods are the names of those that are for --cluster alone.
var ofPods = []string{"filename", "pod", "cpu", "request", "memory", "class", "topology", "namespace"}

func (f *podFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd, "where a pod would go in a Kubernetes cluster, and why not elsewhere", true)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "manifest of the pod or its workload; - reads standard input")
	flags.StringVar(&f.pod, "pod", "", "name of a pending pod in the cluster")
	flags.Var(&f.cpu, "cpu", "limit of a pod of one container, such as 1.5")
	flags.Var(&f.request, "request", "request of the container, if it is less than the limit")
	flags.StringVar(&f.memory, "memory", "", "memory request, such as 512Mi")
	wordFlag(cmd, &f.class, classWords, "class", "", "class of the container, unless an annotation sets it")
	wordFlag(cmd, &f.topology, topologyWords, "topology", "", "topology policy")
}

// run plans a pod.
func (f *podFlags) run(cmd *cobra.Command, args []string, form string) error {
	if len(args) > 0 {
		return badInput("%q: with --cluster want -f FILE, --pod NAME or --cpu CPU", args[0])
	}
	if form == "svg" {
		return badInput("-o svg: not with --cluster: want table or json")
	}
	pod, err := f.describe(cmd)
	if err != nil {
		return err
	}
	c, err := f.client()
	if err != nil {
		return err
	}
	if pod, err = f.placed(cmd, c, pod); err != nil {
		return err
	}
	asked, err := survey.ReadDemand(cmd.Context(), c, pod)
	if err != nil {
		return err
	}
	s, err := survey.Read(cmd.Context(), c)
	if err != nil {
		return err
	}
	answer := s.Place(pod, asked.Demand)
	answer.Notes = asked.Notes
	answer.Unread = append(asked.Unread, s.Unseen()...)
	if form == "json" {
		return writeAnswerJSON(cmd.OutOrStdout(), pod, answer)
	}
	return writeAnswer(cmd.OutOrStdout(), pod, asked.Demand, answer)
}

// describe returns the pod of a manifest or of flags, and nil for a pod in the cluster.
func (f *podFlags) describe(cmd *cobra.Command) (*podcpu.Pod, error) {
	given := 0
	for _, name := range []string{"filename", "pod", "cpu"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	if given != 1 || f.file == "" && f.pod == "" && f.cpu == 0 { // empty: a variable of a script, which is not set
		return nil, badInput("--cluster: want one of -f FILE, --pod NAME and --cpu CPU")
	}
	if f.cpu == 0 {
		for _, name := range []string{"request", "memory", "class", "policy", "topology"} {
			if cmd.Flags().Changed(name) {
				return nil, badInput("--%s: want --cpu beside it", name)
			}
		}
	}
	switch {
	case f.pod != "":
		return nil, nil
	case f.file == "":
		return f.ofFlags(cmd)
	}
	text, err := readManifest(cmd, f.file)
	if err != nil {
		return nil, badInput("-f: %w", err)
	}
	p, err := podcpu.FromManifest(text)
	if err != nil {
		return nil, badInput("-f %s: %w", f.file, err)
	}
	return p, nil
}

// maxManifest is in bytes: more than an API server takes.
const maxManifest = 4 << 20

func readManifest(cmd *cobra.Command, name string) ([]byte, error) {
	if name != "-" {
		return fileio.Read(name, maxManifest)
	}
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxManifest+1))
	if len(text) > maxManifest {
		return nil, fmt.Errorf("standard input: more than %d bytes", maxManifest)
	}
	return text, err
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
			return nil, badInput("--request %v: want --class flexible and at most --cpu", &f.request)
		}
		requests[podcpu.CPU] = *resource.NewMilliQuantity(int64(f.request), resource.DecimalSI)
	}
	if f.memory != "" {
		memory, err := podcpu.Amount(f.memory)
		if err != nil || memory.Sign() < 0 {
			return nil, badInput("--memory %.60q: want an amount such as 512Mi", f.memory)
		}
		requests[podcpu.Memory] = memory
	}
	p.Spec.Containers = []podcpu.Container{{Name: "app", Resources: podcpu.Resources{Limits: limits, Requests: requests}}}
	return p, nil
}

// placed sets the namespace of the pod, or reads the pod from the cluster.
func (f *podFlags) placed(cmd *cobra.Command, c *apiserver.Client, p *podcpu.Pod) (*podcpu.Pod, error) {
	if p != nil {
		p.Metadata.Namespace = cmp.Or(f.namespace, p.Metadata.Namespace, c.Namespace())
		return p, checkNamespace(p.Metadata.Namespace)
	}
	namespace := cmp.Or(f.namespace, c.Namespace())
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	if !isObjectName(f.pod) {
		return nil, badInput("--pod %.60q: want the name of a pod", f.pod)
	}
	p = &podcpu.Pod{}
	if err := c.Get(cmd.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+f.pod, p); err != nil {
		return nil, err
	}
	if p.Spec.NodeName != "" {
		return nil, badInput("--pod %s: it is on node %s: want one that waits", f.pod, p.Spec.NodeName)
	}
	return p, nil
}

func checkNamespace(name string) error {
	if !isObjectName(name) {
		return badInput("namespace %.60q: want the name of one", name)
	}
	return nil
}

// isObjectName reports whether a name is valid in the path of an API request.
func isObjectName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && name[0] != '.'
}
