// Command access checks before a push that a registry accepts it. It fails unless the registry lets the caller push to all given
// repositories. The credentials are those of docker login.
//
//	access [--plain-http] REPOSITORY...
//
// For the check, it starts an upload to each repository, and cancels the upload.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "access: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(1)
	}
}

// run executes a command line.
func run(args []string) error {
	var options []name.Option
	if len(args) > 0 && args[0] == "--plain-http" {
		args, options = args[1:], append(options, name.Insecure)
	}
	if len(args) == 0 {
		return errors.New("arguments: must be repositories, after --plain-http for a registry without TLS")
	}
	for _, text := range args {
		repository, err := name.NewRepository(text, options...)
		if err != nil {
			return err
		}
		if err := remote.CheckPushPermission(repository.Tag("latest"), authn.DefaultKeychain, http.DefaultTransport); err != nil {
			return fmt.Errorf("cannot push to %s: %w", repository, err)
		}
	}
	return nil
}
