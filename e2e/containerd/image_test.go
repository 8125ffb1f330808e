package containerd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// image writes an image of one layer as a tarball in OCI layout: busybox under the names of its tools, and
// files by their path there.
func image(t *testing.T, file, name, busybox string, files map[string]string) {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	layer := pack(func(w *tar.Writer) {
		for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "tmp"} {
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
		}
		put(w, "bin/busybox", 0o755, program)
		for _, tool := range []string{"sh", "sleep", "grep", "cat", "true"} {
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + tool, Linkname: "busybox", Mode: 0o777})
		}
		for _, to := range slices.Sorted(maps.Keys(files)) { // the same files make the same image
			program, err := os.ReadFile(files[to])
			if err != nil {
				t.Fatal(err)
			}
			put(w, strings.TrimPrefix(to, "/"), 0o755, program)
		}
	})
	platform := map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	config := toJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": []string{"sleep", "1000000"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	manifest := toJSON(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{blob("application/vnd.oci.image.layer.v1.tar", layer)},
	})
	entry := blob("application/vnd.oci.image.manifest.v1+json", manifest)
	entry["platform"], entry["annotations"] = platform, map[string]string{"io.containerd.image.name": name}
	index := toJSON(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})
	layout := pack(func(w *tar.Writer) {
		put(w, "oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
		put(w, "index.json", 0o644, index)
		for _, b := range [][]byte{layer, config, manifest} {
			put(w, "blobs/sha256/"+strings.TrimPrefix(digest(b), "sha256:"), 0o644, b)
		}
	})
	if err := os.WriteFile(file, layout, 0o644); err != nil {
		t.Fatal(err)
	}
}

func pack(fill func(*tar.Writer)) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	fill(w)
	if err := w.Close(); err != nil {
		panic(err) // memory takes everything
	}
	return out.Bytes()
}

func put(w *tar.Writer, name string, mode int64, data []byte) {
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))})
	w.Write(data)
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func blob(kind string, b []byte) map[string]any {
	return map[string]any{"mediaType": kind, "digest": digest(b), "size": len(b)}
}

func toJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data always encodes
	}
	return data
}
