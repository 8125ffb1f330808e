package command

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/kube/kubectl-candor/web"
	"github.com/candor-project/candor/kube/survey"
	"github.com/candor-project/candor/kube/v1alpha1"
)

const webLong = `Serve a page with the CPUs of all nodes, and print its address. Ctrl-C ends it.

The page shows each node as a box with its CPUs: exclusive, fractional, shared and
reserved. It follows the reports of the nodes. A node opens as the drawing of kubectl
candor map -o svg. A search finds nodes, and pods by namespace and name. For a pending pod,
the page shows the reason against each node.

The server only listens on 127.0.0.1, and reads with your rights. Each address works once;
the command prints the next address when a browser has opened it.`

const webExample = `  kubectl candor web
  kubectl candor web --port 8080 --context production
  kubectl candor web --prometheus http://127.0.0.1:9090`

func newWebCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{Use: "web", Short: "Serve a page with the CPUs of all nodes", Long: webLong, Example: webExample, Args: noArgs}
	flags := cmd.Flags()
	address := flags.String("address", "127.0.0.1", "IP address to listen on")
	port := flags.Int("port", 0, "port to listen on (default: a free port)")
	prometheus := flags.String("prometheus", "", "URL of a Prometheus that scrapes the agents, for the throttling")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options, err := webOptions(*address, *port, *prometheus)
		if err != nil {
			return err
		}
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		if err := canListReports(cmd.Context(), c); err != nil {
			return err
		}
		if options.Config, err = a.config(); err != nil {
			return err
		}
		options.Cluster = a.contextName(options.Config.Host)
		l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort(*address, strconv.Itoa(*port)))
		if err != nil {
			return fmt.Errorf("--address %s --port %d: %w", *address, *port, err)
		}
		return serve(cmd, options, l)
	}
	return cmd
}

// webOptions checks the flags.
func webOptions(address string, port int, prometheus string) (web.Options, error) {
	var o web.Options
	if net.ParseIP(address) == nil {
		return o, badInput("--address %.60q: must be an IP address", address)
	}
	if port < 0 || port > 65535 {
		return o, badInput("--port %d: must be 0 to 65535", port)
	}
	if prometheus == "" {
		return o, nil
	}
	at, err := url.Parse(prometheus)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return o, badInput("--prometheus: must be http://HOST:PORT or https://HOST:PORT") // without the text, which can have a password
	}
	o.Prometheus = at
	return o, nil
}

// canListReports calls the API server once, so that missing rights and definitions end the command.
func canListReports(ctx context.Context, c *cluster) error {
	var list struct{}
	err := c.Get(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/"+v1alpha1.NodeCPUs+"?limit=1", &list)
	if apierrors.IsNotFound(err) {
		return survey.ErrNoDefinitions
	}
	return err
}

// contextName returns the name of the kubeconfig's context, or the address of the API server without a context.
func (a *access) contextName(host string) string {
	if *a.flags.Context != "" {
		return *a.flags.Context
	}
	if raw, err := a.flags.ToRawKubeConfigLoader().RawConfig(); err == nil && raw.CurrentContext != "" {
		return raw.CurrentContext
	}
	return host
}

// serve serves the page until the context is done, and prints an address for each browser.
func serve(cmd *cobra.Command, o web.Options, l net.Listener) error {
	errOut := cmd.ErrOrStderr()
	var isLater atomic.Bool // sessions can start at the same time
	o.Announce = func(oneTime string) {
		words := "Open"
		if isLater.Swap(true) {
			words = "For another browser or tab, open"
		}
		fmt.Fprintf(errOut, "%s http://%s/#token=%s\n", words, l.Addr(), oneTime)
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		fmt.Fprintln(errOut, "Other machines can reach this address, and the connection is not encrypted.")
	}
	s, err := web.New(o)
	if err != nil {
		_ = l.Close() // err has the reason
		return &inputError{err}
	}
	if os.Getenv("SSH_CONNECTION") != "" {
		fmt.Fprintf(errOut, "From another machine: ssh -L 8080:%s HOST, and port 8080 in the address.\n", l.Addr())
	}
	return s.Serve(cmd.Context(), l)
}
