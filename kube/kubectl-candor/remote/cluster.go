package remote

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// A Cluster runs candor on the nodes of a cluster. It is safe for concurrent use.
type Cluster struct {
	client kubernetes.Interface
	// exec runs a command in a container, and returns its standard output. log returns the log of a container. Tests replace
	// both.
	exec func(ctx context.Context, at Container, command []string, limit int64) ([]byte, error)
	log  func(ctx context.Context, at Container, limit int64) ([]byte, error)
}

// A Container is the address of a container.
type Container struct {
	Namespace, Pod, Name string
}

// New returns a Cluster with the given access. It sends no request.
func New(config *rest.Config) (*Cluster, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{client: client}
	c.exec = func(ctx context.Context, at Container, command []string, limit int64) ([]byte, error) {
		return execIn(ctx, config, client, at, command, limit)
	}
	c.log = func(ctx context.Context, at Container, limit int64) ([]byte, error) {
		return logOf(ctx, client, at, limit)
	}
	return c, nil
}

// A Node is a node on which candor can run.
type Node struct {
	Name    string
	Problem string // reason why the node cannot answer, such as "NotReady: Kubelet stopped posting node status."; "" if it can
}

// Nodes returns the Linux nodes with labels that match the selector, by name. "" selects all nodes.
func (c *Cluster) Nodes(ctx context.Context, selector string) ([]Node, error) {
	var nodes []Node
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Nodes().List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
		if n, ok := object.(*corev1.Node); ok && isLinux(n) {
			nodes = append(nodes, Node{n.Name, problemOf(n)})
		}
		return nil
	})
	return nodes, err
}

func isLinux(n *corev1.Node) bool {
	os, isSet := n.Labels[corev1.LabelOSStable]
	return !isSet || os == "linux"
}

// problemOf returns the reason why a node is not ready, or "" if it is ready.
func problemOf(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return fmt.Sprintf("NotReady: %.200s", c.Message)
		}
	}
	return "NotReady: the kubelet has not reported its status"
}
