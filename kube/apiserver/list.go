package apiserver

import (
	"context"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	pageSize = 500     // objects in a page
	maxItems = 1 << 20 // bounds the objects in a list: several times the number in the largest clusters
	maxTries = 3       // attempts: the API server ends a list that takes too long with ResourceExpired
)

// A Reader reads from an API server. Client is a Reader.
type Reader interface {
	// Get reads the object or list at a path of the API, such as "/api/v1/nodes?limit=500". If the API server refuses the call,
	// the error is a StatusError of Kubernetes' package errors.
	Get(ctx context.Context, path string, into any) error
}

// List reads all objects at a path of the API, page by page.
func List[T any](ctx context.Context, c Reader, path string) (all []T, err error) {
	for range maxTries {
		if all, err = list[T](ctx, c, path); !apierrors.IsResourceExpired(err) {
			break
		}
	}
	return all, err
}

func list[T any](ctx context.Context, c Reader, path string) (all []T, err error) {
	err = EachPage(ctx, c, path, "", func(page []T) { all = append(all, page...) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EachPage reads the objects at a path of the API, and calls a function for each page, so that only a page is in memory. query
// has further parameters such as "fieldSelector=spec.nodeName%3Da", or is "". If the API server ends the list with
// ResourceExpired, the caller can start again.
func EachPage[T any](ctx context.Context, c Reader, path, query string, do func(page []T)) error {
	if query != "" {
		query = "&" + query
	}
	next, items := "", 0
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []T
		}
		if err := c.Get(ctx, fmt.Sprintf("%s?limit=%d&continue=%s%s", path, pageSize, url.QueryEscape(next), query), &page); err != nil {
			return err
		}
		do(page.Items)
		items += len(page.Items)
		switch next = page.Metadata.Continue; {
		case next == "":
			return nil
		case len(page.Items) == 0, items > maxItems:
			return fmt.Errorf("%s: a list without end", path)
		}
	}
}
