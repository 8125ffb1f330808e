package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/survey"
	"github.com/candor-project/candor/kube/v1alpha1"
)

func newProfileCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{
		Use: "profile", Short: "Check CPUProfiles before they are applied",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("unknown command %.60q; use validate or test", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newValidateCommand(), newTestCommand(a))
	return cmd
}

const validateLong = `Check the manifests of CPUProfiles: fields, values, selectors and patterns. The command
needs no cluster. kubectl apply --dry-run=server -f FILE also checks the rights and the
policies of the cluster.`

func newValidateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Check the manifests of CPUProfiles", Long: validateLong,
		Example: "  kubectl candor profile validate -f profiles.yaml", Args: noArgs,
	}
	file := fileFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := readProfiles(cmd.InOrStdin(), *file)
		if err != nil {
			return err
		}
		for i := range all {
			fmt.Fprintf(cmd.OutOrStdout(), "CPUProfile %s is valid\n", all[i].Name)
		}
		return nil
	}
	return cmd
}

func fileFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("filename", "f", "", "manifest of one or more CPUProfiles; - reads standard input")
}

// readProfiles reads and checks the CPUProfiles of a file.
func readProfiles(in io.Reader, name string) ([]v1alpha1.CPUProfile, error) {
	if name == "" {
		return nil, badInput("missing -f; must be the manifest of one or more CPUProfiles")
	}
	text, err := readManifest(in, name)
	if err != nil {
		return nil, err
	}
	all, err := parseProfiles(text)
	if err != nil {
		return nil, badInput("-f %s: %w", name, err)
	}
	return all, nil
}

// parseProfiles parses the documents of a manifest. Each must be a valid CPUProfile.
func parseProfiles(text []byte) (all []v1alpha1.CPUProfile, err error) {
	for i, document := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var p v1alpha1.CPUProfile
		if err := yaml.UnmarshalStrict(document, &p); err != nil {
			return nil, fmt.Errorf("document %d: %s", i+1, oneLine(strings.TrimPrefix(err.Error(), decodePrefix)))
		}
		if err := checkProfile(&p); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no CPUProfile: must be of apiVersion %s and kind CPUProfile", v1alpha1.GroupVersion)
	}
	return all, nil
}

// decodePrefix is the beginning of the errors of package yaml about values.
const decodePrefix = "error unmarshaling JSON: while decoding JSON: json: "

func checkProfile(p *v1alpha1.CPUProfile) error {
	if p.APIVersion != v1alpha1.GroupVersion.String() || p.Kind != "CPUProfile" {
		return fmt.Errorf("%.60q %.60q: must be apiVersion %s and kind CPUProfile", p.APIVersion, p.Kind, v1alpha1.GroupVersion)
	}
	if wrong := validation.IsDNS1123Subdomain(p.Name); wrong != nil {
		return fmt.Errorf("name %.60q: must be lower case letters, digits, . and -", p.Name)
	}
	_, err := profile.Read(p)
	return err
}

const testLong = `Show which running and pending pods CPUProfiles would change. The command compares the
settings of each container with and without the profiles of the file. A profile of the
same name in the cluster is replaced. Nothing changes in the cluster.

Profiles apply when a pod is scheduled. A change of a running pod takes effect when the
pod is created again.`

func newTestCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{
		Use: "test -f FILE", Short: "Show which pods CPUProfiles would change", Long: testLong,
		Example: "  kubectl candor profile test -f profiles.yaml -n shop\n  kubectl candor profile test -f profiles.yaml -o json | jq length", Args: noArgs,
	}
	file := fileFlag(cmd)
	output := outputFlag(cmd, "table", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := readProfiles(cmd.InOrStdin(), *file)
		if err != nil {
			return err
		}
		byNamespace, err := byNamespace(a, all)
		if err != nil {
			return err
		}
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		changes, notes := []profileChange{}, []string{}
		for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
			found, remarks, err := testProfiles(cmd.Context(), c, namespace, byNamespace[namespace])
			if err != nil {
				return err
			}
			changes, notes = append(changes, found...), append(notes, remarks...)
		}
		if output.value == "json" {
			return jsonout.Write(cmd.OutOrStdout(), changes)
		}
		return writeChanges(cmd.OutOrStdout(), changes, notes, tableWidth(output))
	}
	return cmd
}

// byNamespace groups profiles by the namespace of -n, of the manifest or of the context, in this order.
func byNamespace(a *access, all []v1alpha1.CPUProfile) (map[string][]profile.Profile, error) {
	groups := map[string][]profile.Profile{}
	for i := range all {
		p := &podcpu.Pod{Metadata: podcpu.Metadata{Namespace: all[i].Namespace}}
		if err := setNamespace(a, p); err != nil {
			return nil, err
		}
		read, err := profile.Read(&all[i])
		if err != nil {
			return nil, err
		}
		groups[p.Metadata.Namespace] = append(groups[p.Metadata.Namespace], read)
	}
	return groups, nil
}

// A profileChange is a setting of a container that the profiles would change.
type profileChange struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Setting   string `json:"setting"`
	Now       string `json:"now,omitempty"`  // absent: no source sets it
	With      string `json:"with,omitempty"` // value with the profiles
	Running   bool   `json:"running"`        // the change takes effect when the pod is created again
}

// testProfiles returns the changes by profiles in a namespace, and remarks.
func testProfiles(ctx context.Context, c *cluster, namespace string, tested []profile.Profile) (changes []profileChange, notes []string, err error) {
	before, err := survey.ReadSources(ctx, c, namespace)
	if err != nil {
		return nil, nil, err
	}
	pods, err := apiserver.List[podcpu.Pod](ctx, c, "/api/v1/namespaces/"+namespace+"/pods")
	if err != nil {
		return nil, nil, err
	}
	templates, notes := readTemplates(ctx, c, namespace)
	after := before.Context
	after.Profiles = slices.Clone(tested)
	for _, p := range before.Profiles {
		if !slices.ContainsFunc(tested, func(t profile.Profile) bool { return t.Name == p.Name }) {
			after.Profiles = append(after.Profiles, p)
		}
	}
	for i := range pods {
		p := &pods[i]
		if p.HasEnded() {
			continue
		}
		templates.restore(p)
		now, err := podcpu.Read(p, before.Context)
		var with *podcpu.Demand
		if err == nil {
			with, err = podcpu.Read(p, after)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("pod %s: %v", p.Metadata.Name, err))
			continue
		}
		changes = append(changes, compareSettings(p, now, with)...)
	}
	return changes, append(before.Notes, notes...), nil
}

// compareSettings returns the settings of a pod's containers that differ.
func compareSettings(p *podcpu.Pod, now, with *podcpu.Demand) (changes []profileChange) {
	for i := range now.Containers {
		was, is := now.Containers[i].Values, with.Containers[i].Values
		all := maps.Clone(was)
		maps.Copy(all, is)
		for _, setting := range slices.Sorted(maps.Keys(all)) {
			if was[setting] != is[setting] {
				changes = append(changes, profileChange{p.Metadata.Namespace, p.Metadata.Name, now.Containers[i].Container, setting, was[setting], is[setting], p.Spec.NodeName != ""})
			}
		}
	}
	return changes
}

func writeChanges(out io.Writer, changes []profileChange, notes []string, width int) error {
	var text strings.Builder
	pods := map[string]bool{}
	if len(changes) > 0 {
		t := &texttable.Table{Titles: []string{"POD", "CONTAINER", "SETTING", "NOW", "WITH THE FILE", "EFFECTIVE"}, Ranks: []int{0, 0, 0, 0, 0, 1}}
		for _, c := range changes {
			pods[c.Namespace+"/"+c.Pod] = true
			effective := "when it is scheduled"
			if c.Running {
				effective = "when it is created again"
			}
			t.Rows = append(t.Rows, []string{cpumap.Clean(c.Namespace + "/" + c.Pod), cpumap.Clean(c.Container), c.Setting, orDash(c.Now), orDash(c.With), effective})
		}
		_ = t.Write(&text, width) // a write to memory cannot fail
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "%s would change.\n", count(len(pods), "pod"))
	writeLines(&text, "Notes", notes)
	_, err := io.WriteString(out, text.String())
	return err
}

func orDash(value string) string {
	if value == "" {
		return "-"
	}
	return cpumap.Clean(value)
}
