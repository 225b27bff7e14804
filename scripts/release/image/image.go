package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image makes one layer of the stage's files, and the configuration.
func (s *stage) image() (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(s.tar, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.AppendLayers(img, layer)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = s.builder.Platform.OS, s.builder.Platform.Architecture, s.builder.Platform.Variant
	file.Created = v1.Time{Time: s.builder.Created}
	file.Config = s.config
	return mutate.ConfigFile(img, file)
}

// tar returns the stage's files: sorted, dated, and owned as the Dockerfile says.
func (s *stage) tar() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { // ends when the reader has everything, or closes
		out := tar.NewWriter(w)
		err := filepath.WalkDir(s.root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == s.root {
				return err
			}
			return s.tarFile(out, p, d)
		})
		w.CloseWithError(errors.Join(err, out.Close()))
	}()
	return r, nil
}

func (s *stage) tarFile(out *tar.Writer, p string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(s.root, p)
	if err != nil {
		return err
	}
	name := filepath.ToSlash(rel)
	by := s.owners[name]
	h := &tar.Header{
		Name: name, Mode: int64(info.Mode().Perm()), Uid: by.uid, Gid: by.gid,
		ModTime: s.builder.Created, Typeflag: tar.TypeReg, Size: info.Size(), Format: tar.FormatPAX,
	}
	if info.IsDir() {
		h.Name, h.Typeflag, h.Size, h.Mode = name+"/", tar.TypeDir, 0, 0o755
	}
	if err := out.WriteHeader(h); err != nil || info.IsDir() {
		return err
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

// Write writes images of one program, one for each platform, as an OCI layout.
func Write(dir, name string, images []v1.Image) error {
	var add []mutate.IndexAddendum
	for _, img := range images {
		file, err := img.ConfigFile()
		if err != nil {
			return err
		}
		add = append(add, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: file.OS, Architecture: file.Architecture, Variant: file.Variant},
		}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), add...)
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		MediaType: types.OCIImageIndex, Annotations: map[string]string{
			"org.opencontainers.image.ref.name": name, "io.containerd.image.name": "docker.io/" + name, // for an import by containerd
		},
	}})
	_, err := layout.Write(dir, top)
	return err
}

// Open returns the image of a platform from an OCI layout that Write wrote.
func Open(dir string, platform v1.Platform) (v1.Image, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: %d entries, want the index of one program", dir, len(manifest.Manifests))
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	if manifest, err = index.IndexManifest(); err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.Equals(platform) {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("%s: no image for %s", dir, platform)
}

// maxUnpacked bounds the files of an image that Unpack writes.
const maxUnpacked = 1 << 30

// Unpack writes the files of an image to a folder. A process with the right to do so gives them
// their owners.
func Unpack(img v1.Image, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all := mutate.Extract(img)
	defer all.Close()
	files := tar.NewReader(io.LimitReader(all, maxUnpacked))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(h.Name, "/")
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, h.FileInfo().Mode().Perm())
		case tar.TypeReg:
			var content bytes.Buffer
			if _, err = content.ReadFrom(files); err == nil {
				err = root.WriteFile(name, content.Bytes(), h.FileInfo().Mode().Perm())
			}
		default:
			err = fmt.Errorf("%s: neither a file nor a folder", name)
		}
		if err == nil && os.Geteuid() == 0 {
			err = root.Chown(name, h.Uid, h.Gid)
		}
		if err != nil {
			return err
		}
	}
}
