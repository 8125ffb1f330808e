package web

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/candor-project/candor/kube/survey"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// callTimeout bounds a call of the API server. The largest page of objects takes seconds.
const callTimeout = time.Minute

// restClient returns a client for Candor's custom resources.
func restClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &v1alpha1.GroupVersion, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.Timeout = 0 // it would end the watch
	c.QPS = -1
	return rest.RESTClientFor(c)
}

// A reader reads objects from the API server. It is an apiserver.Reader.
type reader struct {
	client rest.Interface
}

// Get reads the object or list at a path of the API.
func (r *reader) Get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result := r.client.Get().RequestURI(path).Do(ctx)
	if err := result.Error(); err != nil { // unlike Raw, with the API server's reason
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("GET %s: the answer is none of an API server: %w", path, err)
	}
	return nil
}

// watchProblem adds the next step to an error of the list or the watch of the reports.
func watchProblem(err error) error {
	switch {
	case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return nil // the reflector lists again
	case apierrors.IsNotFound(err):
		return survey.ErrNoDefinitions
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the ClusterRole candor-view has the rights (docs/kubectl.md)", err)
	}
	return err
}
