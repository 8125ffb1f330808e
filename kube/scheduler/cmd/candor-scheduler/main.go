// candor-scheduler is kube-scheduler with Candor's plugin compiled in: the same flags, the same configuration.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/candor-project/candor/kube/scheduler"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(scheduler.Name, scheduler.Factory()))))
}
