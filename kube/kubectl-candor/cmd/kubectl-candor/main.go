// kubectl-candor is a plugin of kubectl: kubectl candor audit, map, nodes and others.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // logins of a kubeconfig, such as OIDC

	"github.com/candor-project/candor/kube/kubectl-candor/command"
)

func main() { os.Exit(command.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
