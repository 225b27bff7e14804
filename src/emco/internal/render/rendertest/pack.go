package rendertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Pack returns a gzip-compressed tar of files, in the order of their paths.
func Pack(files map[string]string) ([]byte, error) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := out.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(out, files[name]); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return b.Bytes(), err
}

// Dir returns the files of a directory tree, by path within it.
func Dir(tree fs.FS, under string) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		files[path.Join(under, name)] = string(content)
		return err
	})
	return files, err
}

// Archive returns packed content in the form of a request.
func Archive(packed []byte) render.Archive {
	return render.Archive{
		Digest: manifest.DigestOf(packed),
		Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(packed)), nil
		},
	}
}
