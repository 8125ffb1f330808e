package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/texttable"
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
	policy   *hybrid.Policy // value of --policy of candor plan
	topology hybrid.TopologyPolicy
}

// ofPods are the names of the flags that require --cluster.
var ofPods = []string{"filename", "pod", "cpu", "request", "memory", "class", "topology", "namespace"}

func (f *podFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd, "plan a pod on the nodes of a Kubernetes cluster", true)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "manifest of the pod or its workload; - reads standard input")
	flags.StringVar(&f.pod, "pod", "", "name of a pending pod in the cluster")
	flags.Var(&f.cpu, "cpu", "CPU limit of a planned pod with a single container, such as 1.5")
	flags.Var(&f.request, "request", "CPU request of the container (default: the limit)")
	flags.StringVar(&f.memory, "memory", "", "memory request, such as 512Mi")
	wordFlag(cmd, &f.class, classWords, "class", "", "class of the container, unless an annotation sets it")
	wordFlag(cmd, &f.topology, topologyWords, "topology", "", "topology policy; prefer selects CPUs close together if possible")
}

// run plans a pod.
func (f *podFlags) run(cmd *cobra.Command, args []string, output *choice) error {
	if len(args) > 0 {
		return badInput("%q: with --cluster, use -f FILE, --pod NAME or --cpu CPU", args[0])
	}
	if output.value == "svg" {
		return badInput("-o svg: must be table, wide or json with --cluster")
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
	answer.Unread = slices.Concat(asked.Unread, s.Unseen())
	out := cmd.OutOrStdout()
	if output.value == "json" {
		return writeAnswerJSON(out, pod, answer)
	}
	return writeAnswer(out, tableWidth(out, output), pod, asked.Demand, answer)
}

// describe returns the pod that a manifest or the flags describe. With --pod, it returns nil: the pod is in the cluster.
func (f *podFlags) describe(cmd *cobra.Command) (*podcpu.Pod, error) {
	given := 0
	for _, name := range []string{"filename", "pod", "cpu"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	if given != 1 || f.file == "" && f.pod == "" && f.cpu == 0 { // an empty value can be an unset variable of a script
		return nil, badInput("--cluster: must have one of -f FILE, --pod NAME and --cpu CPU")
	}
	if f.cpu == 0 {
		for _, name := range []string{"request", "memory", "class", "policy", "topology"} {
			if cmd.Flags().Changed(name) {
				return nil, badInput("--%s: add --cpu", name)
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

// maxManifest is the maximum size of a manifest in bytes. An API server accepts less.
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

// placed sets the namespace of p and returns p. If p is nil, it reads the pod of --pod from the cluster.
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
		return nil, badInput("--pod %.60q: must be the name of a pod", f.pod)
	}
	p = &podcpu.Pod{}
	if err := c.Get(cmd.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+f.pod, p); err != nil {
		return nil, err
	}
	if p.Spec.NodeName != "" {
		return nil, badInput("--pod %s: is on node %s: must be a pending pod", f.pod, p.Spec.NodeName)
	}
	return p, nil
}

func checkNamespace(name string) error {
	if !isObjectName(name) {
		return badInput("namespace %.60q: must be the name of a namespace", name)
	}
	return nil
}

// isObjectName reports whether a name is valid in the path of an API request.
func isObjectName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && name[0] != '.'
}

// writeAnswer writes the candidate nodes of a pod as a table. width is the width of the terminal; 0: unlimited.
func writeAnswer(out io.Writer, width int, p *podcpu.Pod, asked *podcpu.Demand, a *survey.Result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s: %s\n\n", cpumap.Clean(p.Metadata.Namespace), cpumap.Clean(p.Metadata.Name), askedWords(asked))
	_ = candidateTable(a).Write(&text, width) // a write to memory cannot fail
	fmt.Fprintln(&text)
	text.WriteString(outcome(a) + "\n")
	writeLines(&text, "Notes", a.Notes)
	writeLines(&text, "Not evaluated here, and can change the result", a.Unread)
	_, err := io.WriteString(out, text.String())
	return err
}

func candidateTable(a *survey.Result) *texttable.Table {
	t := &texttable.Table{Titles: []string{"NODE", "PLACE", "ADDS SHARED TIME", "MOVES", "WHAT IT WOULD HAVE"}, Ranks: []int{0, 0, 1, 2, 0}, LastWidth: 20}
	for i := range a.Candidates {
		at := &a.Candidates[i]
		row := []string{cpumap.Clean(at.Node), "-", "-", "-", cpumap.Clean(at.Reason)}
		if at.Reason == "" {
			row = []string{cpumap.Clean(at.Node), fmt.Sprint(at.Place), fmt.Sprint(at.Shared), fmt.Sprint(at.Moves), givenWords(at)}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// writeLines writes a list with its heading and length, unless it is empty.
func writeLines(out io.Writer, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s (%d):\n", heading, len(lines))
	for _, line := range lines {
		fmt.Fprintln(out, "-", cpumap.Clean(line))
	}
}

// outcome describes the node that the pod gets, or why it waits.
func outcome(a *survey.Result) string {
	best := a.Best()
	if best == nil {
		return "It waits: " + cpumap.Clean(a.Refusal())
	}
	alike := 0
	for i := range a.Candidates {
		if a.Candidates[i].Place == 1 {
			alike++
		}
	}
	if alike > 1 {
		return fmt.Sprintf("It goes to one of the %d nodes of place 1.", alike)
	}
	return fmt.Sprintf("It goes to node %s.", cpumap.Clean(best.Node))
}

// askedWords describes the demand of the pod.
func askedWords(asked *podcpu.Demand) string {
	var words []string
	for _, r := range asked.Lasting() {
		_, name, _ := strings.Cut(r.ID, "/")
		what := fmt.Sprintf("%s %s, limit %s", cpumap.Clean(name), r.Class, limit(r.Limit))
		if r.Class == hybrid.Flexible {
			what += ", guaranteed " + amount(r.Guaranteed())
		}
		words = append(words, what)
	}
	if words == nil {
		return "Candor plans none of its containers"
	}
	return strings.Join(words, "; ")
}

// givenWords describes the CPUs of the containers on a node.
func givenWords(at *survey.Candidate) string {
	if len(at.Containers) == 0 {
		return "no Candor there: what the kubelet gives"
	}
	var words []string
	for _, c := range at.Containers {
		what := "CPUs " + c.CPUs
		if c.Class == hybrid.Flexible {
			what = "shared " + c.CPUs
		}
		if len(at.Containers) > 1 {
			what = cpumap.Clean(c.Name) + ": " + what
		}
		words = append(words, what)
	}
	return strings.Join(words, "; ")
}

// A podPlan is the JSON form of a pod's plan.
type podPlan struct {
	Namespace string             `json:"namespace"`
	Pod       string             `json:"pod"`
	Node      *string            `json:"node"` // null: the pod waits
	Refusal   string             `json:"refusal,omitempty"`
	Nodes     []survey.Candidate `json:"nodes"`
	Notes     []string           `json:"notes"`
	Unseen    []string           `json:"notLookedAt"`
}

// writeAnswerJSON writes the candidate nodes of a pod as JSON.
func writeAnswerJSON(out io.Writer, p *podcpu.Pod, a *survey.Result) error {
	var node *string
	refusal := ""
	if best := a.Best(); best != nil {
		node = &best.Node
	} else {
		refusal = a.Refusal()
	}
	return writeJSON(out, podPlan{p.Metadata.Namespace, p.Metadata.Name, node, refusal, append([]survey.Candidate{}, a.Candidates...), append([]string{}, a.Notes...), append([]string{}, a.Unread...)})
}

// clusterFlags select a cluster.
type clusterFlags struct {
	cluster    bool
	kubeconfig string
	context    string
	namespace  string
	timeout    time.Duration
}

// add adds the flags to a command that works on a cluster if --cluster is set.
func (f *clusterFlags) add(cmd *cobra.Command, usage string, namespaced bool) {
	flags := cmd.Flags()
	flags.BoolVar(&f.cluster, "cluster", false, usage)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config or the pod's account)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: current context)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "timeout of each request to the API server")
	if namespaced {
		flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pod (default: from the manifest, or from the context)")
	}
}

// check refuses flags of the other mode: forCluster are flags that require --cluster, forMachine flags that exclude it.
func (f *clusterFlags) check(cmd *cobra.Command, forCluster, forMachine []string) error {
	if f.cluster {
		for _, name := range forMachine {
			if cmd.Flags().Changed(name) {
				return badInput("--%s: cannot be combined with --cluster", name)
			}
		}
		if f.timeout < time.Second || f.timeout > time.Hour {
			return badInput("--timeout %v: must be 1s to 1h", f.timeout)
		}
		return nil
	}
	for _, name := range slices.Concat(forCluster, []string{"kubeconfig", "context", "timeout"}) {
		if cmd.Flags().Changed(name) {
			return badInput("--%s: add --cluster", name)
		}
	}
	return nil
}

// client returns a client of the API server. It sends no request.
func (f *clusterFlags) client() (*apiserver.Client, error) {
	c, err := apiserver.New(apiserver.Options{
		Kubeconfig: cmp.Or(f.kubeconfig, apiserver.DefaultKubeconfig()), Context: f.context, Attended: true,
		Product: "candor/" + versionString(), Patience: f.timeout,
	})
	if err != nil {
		return nil, badInput("%s", strings.TrimPrefix(err.Error(), apiserver.ErrBadOptions.Error()+": "))
	}
	return c, nil
}
