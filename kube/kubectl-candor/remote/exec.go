package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// An ExitError is the error of a command with an exit code other than 0.
type ExitError struct {
	Code   int
	Stderr string // last line of the standard error, of at most maxStderr bytes
}

func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("candor ended with exit code %d", e.Code)
	}
	return e.Stderr
}

// errTooLong is the error for more output than the limit.
var errTooLong = errors.New("more output than expected")

// maxStderr bounds the standard error of a command that is stored, in bytes.
const maxStderr = 600

// execIn runs a command in a container. If the command ends with another exit code than 0, execIn returns its output and an
// ExitError. It returns when ctx ends, also if the server does not answer.
func execIn(ctx context.Context, config *rest.Config, client kubernetes.Interface, at Container, command []string, limit int64) ([]byte, error) {
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(at.Namespace).Name(at.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: at.Name, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	// kubectl exec also tries a WebSocket first, and then SPDY for proxies and servers without WebSockets.
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, errOut := &boundedBuffer{limit: limit, over: func() { cancel(errTooLong) }}, &boundedBuffer{limit: maxStderr, over: func() {}}
	done := make(chan error, 1)
	go func() {
		done <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errOut})
	}()
	select {
	case err = <-done:
	case <-ctx.Done(): // the executor can wait for a connection without regard to ctx, and may still write
		return nil, context.Cause(ctx)
	}
	if exit := (utilexec.CodeExitError{}); errors.As(err, &exit) {
		return out.text.Bytes(), &ExitError{exit.Code, lastLine(errOut.text.String())}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return out.text.Bytes(), err
}

// A boundedBuffer stores at most limit bytes. It calls over when more is written, and discards the rest.
type boundedBuffer struct {
	text  bytes.Buffer
	limit int64
	over  func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - int64(b.text.Len()); int64(len(p)) > room {
		b.text.Write(p[:room])
		b.over()
		return len(p), nil
	}
	return b.text.Write(p)
}

// lastLine returns the last line of a text that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// logOf reads the log of a container that has ended.
func logOf(ctx context.Context, client kubernetes.Interface, at Container, limit int64) ([]byte, error) {
	stream, err := client.CoreV1().Pods(at.Namespace).GetLogs(at.Pod, &corev1.PodLogOptions{Container: at.Name}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLong
	}
	return text, err
}
