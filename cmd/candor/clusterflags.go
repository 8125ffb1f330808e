package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/kube/apiserver"
)

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
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config or the pod's)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: current context)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "timeout of each request to the API server")
	if namespaced {
		flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pod (default: of the manifest or context)")
	}
}

// check refuses flags of the other mode: forCluster are flags that require --cluster, forMachine flags that exclude it.
func (f *clusterFlags) check(cmd *cobra.Command, forCluster, forMachine []string) error {
	if f.cluster {
		for _, name := range forMachine {
			if cmd.Flags().Changed(name) {
				return badInput("--%s: not with --cluster", name)
			}
		}
		if f.timeout < time.Second || f.timeout > time.Hour {
			return badInput("--timeout %v: want 1s to 1h", f.timeout)
		}
		return nil
	}
	for _, name := range slices.Concat(forCluster, []string{"kubeconfig", "context", "timeout"}) {
		if cmd.Flags().Changed(name) {
			return badInput("--%s: want --cluster beside it", name)
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
