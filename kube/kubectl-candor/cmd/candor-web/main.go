// candor-web serves the page of kubectl candor web in a cluster. The API server reviews the token and the rights of each request.
// The chart runs it (web.enabled).
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/kube/kubectl-candor/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// Exit codes.
const (
	exitFailure  = 1
	exitBadInput = 2
)

// options are the flags.
type options struct {
	listen, cert, key, prometheus, cluster string
}

const usage = `Serve the page of kubectl candor web in a cluster.

It runs in a pod and uses the pod's service account, which needs the rights of the chart's
ClusterRole. Each request for data needs a token of the cluster, whose user can list
nodecpus.candor.dev. Without a certificate, it only listens on a loopback address, which
kubectl port-forward reaches.

Flags:
`

// run executes a command line until the context is done, and returns the exit code.
func run(ctx context.Context, args []string, errOut io.Writer) int {
	var o options
	flags := pflag.NewFlagSet("candor-web", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "IP address and port to listen on")
	flags.StringVar(&o.cert, "tls-cert-file", "", "certificate for HTTPS, in PEM; a renewed file is read again")
	flags.StringVar(&o.key, "tls-key-file", "", "key of the certificate, in PEM")
	flags.StringVar(&o.prometheus, "prometheus", "", "URL of a Prometheus that scrapes the agents, for the throttling")
	flags.StringVar(&o.cluster, "cluster", "", "name of the cluster in the title of the page")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(errOut, usage, flags.FlagUsages())
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("argument %.60q: the program takes no arguments", flags.Arg(0))
	}
	if err != nil {
		return fail(errOut, fmt.Errorf("%w; candor-web --help lists the flags", err), exitBadInput)
	}
	at, err := o.check()
	if err != nil {
		return fail(errOut, err, exitBadInput)
	}
	if err := o.serve(ctx, at, errOut); err != nil {
		return fail(errOut, err, exitFailure)
	}
	return 0
}

// fail prints an error as a single line.
func fail(errOut io.Writer, err error, code int) int {
	fmt.Fprintln(errOut, "candor-web: "+strings.Join(strings.Fields(err.Error()), " "))
	return code
}

// check checks the flags, and returns the address of Prometheus, or nil.
func (o *options) check() (*url.URL, error) {
	host, _, err := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil && host != "":
		return nil, fmt.Errorf("--listen %.60q: must be IP:PORT, or :PORT for all addresses", o.listen)
	case (o.cert == "") != (o.key == ""):
		return nil, errors.New("--tls-cert-file and --tls-key-file: must both be set, or none")
	case o.cert == "" && (ip == nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("--listen %s: must be a loopback address without --tls-cert-file, because requests have tokens", o.listen)
	case o.prometheus == "":
		return nil, nil
	}
	at, err := url.Parse(o.prometheus)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, errors.New("--prometheus: must be http://HOST:PORT or https://HOST:PORT") // without the text, which can have a password
	}
	return at, nil
}

// serve serves the page until the context is done.
func (o *options) serve(ctx context.Context, prometheus *url.URL, errOut io.Writer) error {
	klog.LogToStderr(false) // client-go logs each attempt; the page shows the last error
	klog.SetOutput(io.Discard)
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("the pod's service account: %w; automountServiceAccountToken is required", err)
	}
	config.UserAgent, config.QPS = "candor-web", -1
	logger := log.New(errOut, "candor-web: ", log.LstdFlags|log.LUTC)
	s, err := web.New(web.Options{Config: config, Cluster: o.cluster, Prometheus: prometheus, Log: logger})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	if o.cert != "" {
		pair := &keyPair{cert: o.cert, key: o.key}
		if _, err := pair.get(nil); err != nil {
			return errors.Join(err, l.Close())
		}
		l = tls.NewListener(l, &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	}
	logger.Printf("listening on %s", l.Addr())
	return s.Serve(ctx, l)
}

// A keyPair is a certificate in files, which a certificate manager renews. It is safe for concurrent use.
type keyPair struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	at     time.Time
}

// keyPairAge is the time after which the files are read again.
const keyPairAge = time.Minute

// get returns the certificate. If the renewed files cannot be read, it returns the previous certificate.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded != nil && time.Since(p.at) < keyPairAge {
		return p.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	switch {
	case err == nil:
		p.loaded = &pair
	case p.loaded == nil:
		return nil, fmt.Errorf("--tls-cert-file %s: %w", p.cert, err)
	}
	p.at = time.Now()
	return p.loaded, nil
}
