// Command image builds the container images of a release without a container engine. An image has an empty base and a single
// static binary. Equal binaries and an equal SOURCE_DATE_EPOCH give an equal digest.
//
//	image build LAYOUT NAME VERSION COMMIT ARCH=FILE...  write an OCI layout and print the digest of its index
//	image push [--plain-http] LAYOUT REFERENCE           push the index of a layout and print its reference with the digest
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const source = "https://github.com/candor-project/candor"

func main() {
	line, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "image: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(1)
	}
	fmt.Println(line)
}

// run executes a command line and returns its output.
func run(args []string) (string, error) {
	switch {
	case len(args) >= 6 && args[0] == "build":
		return build(args[1], args[2], args[3], args[4], args[5:])
	case len(args) == 3 && args[0] == "push":
		return push(args[1], args[2])
	case len(args) == 4 && args[0] == "push" && args[1] == "--plain-http":
		return push(args[2], args[3], name.Insecure)
	}
	return "", errors.New("arguments: must be build LAYOUT NAME VERSION COMMIT ARCH=FILE... or push [--plain-http] LAYOUT REFERENCE")
}

// build writes the index of a program's images to a new layout, and returns the digest of the index.
func build(dir, program, version, commit string, binaries []string) (string, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH %q: must be the seconds since 1970", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	created := time.Unix(seconds, 0).UTC()
	labels := map[string]string{
		"org.opencontainers.image.title": program, "org.opencontainers.image.version": version,
		"org.opencontainers.image.revision": commit,
		"org.opencontainers.image.created":  created.Format(time.RFC3339),
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range binaries {
		arch, file, _ := strings.Cut(binary, "=")
		image, err := newImage(program, file, arch, created, labels)
		if err != nil {
			return "", fmt.Errorf("%s: %w", binary, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
	}
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// newImage returns the image of a binary for an architecture.
func newImage(program, file, arch string, created time.Time, labels map[string]string) (v1.Image, error) {
	binary, err := os.ReadFile(file) //nolint:gosec // an argument of the build
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o755, Size: int64(len(binary)), ModTime: created})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + program}, Labels: labels},
	})
	if err == nil {
		history := v1.History{Created: v1.Time{Time: created}, CreatedBy: "candor tools/release/image"}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history})
	}
	if err != nil {
		return nil, err
	}
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// push pushes the index of a layout that build has written. The credentials are those of docker login.
func push(dir, reference string, options ...name.Option) (string, error) {
	ref, err := name.ParseReference(reference, options...)
	if err != nil {
		return "", err
	}
	var manifest *v1.IndexManifest
	all, err := layout.ImageIndexFromPath(dir)
	if err == nil {
		manifest, err = all.IndexManifest()
	}
	if err != nil {
		return "", err
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("%s: %d manifests; must be a layout of image build, with 1", dir, len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err == nil {
		err = remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	if err != nil {
		return "", fmt.Errorf("cannot push %s: %w", ref, err)
	}
	return ref.Context().Digest(manifest.Manifests[0].Digest.String()).String(), nil
}
