package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits of an archive: 100 MiB in 20,000 files.
const (
	maxFiles = 20_000
	maxBytes = 100 << 20
)

// pack returns files as a compressed archive: the same bytes for the same files.
func pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o644, Format: tar.FormatPAX}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), zip.Close())
	return out.Bytes(), err
}

// unpack returns the files of an archive. It refuses everything but regular files with
// clean names: pack writes nothing else.
func unpack(blob []byte) (map[string][]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(blob))
	if err != nil {
		return nil, bad(err)
	}
	r := tar.NewReader(io.LimitReader(zip, maxBytes))
	files := map[string][]byte{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, bad(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg || path.IsAbs(h.Name) || path.Clean(h.Name) != h.Name || len(files) == maxFiles {
			return nil, bad(fmt.Errorf("it holds %q, which EMCO does not write", h.Name))
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return nil, bad(err)
		}
	}
}

func bad(err error) error {
	return errs.E(errs.Conflict, "read", "the artifact", err)
}
