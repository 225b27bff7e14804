// Package archive writes reproducible archives: sorted, with one date and without owners.
package archive

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string // slash-separated
	Path string // where it is on this machine
	Exec bool
}

// Write writes the archive that the name ends for: .tar.gz or .zip. All files are below the
// folder top.
func Write(name, top string, files []File, date time.Time) (err error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if strings.HasSuffix(name, ".zip") {
		return writeZip(out, top, files, date)
	}
	return writeTar(out, top, files, date)
}

func (f File) mode() fs.FileMode {
	if f.Exec {
		return 0o755
	}
	return 0o644
}

func writeTar(w io.Writer, top string, files []File, date time.Time) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(packed)
	for _, f := range files {
		info, err := os.Stat(f.Path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: top + "/" + f.Name, Mode: int64(f.mode()), Size: info.Size(), ModTime: date, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if err := copyFile(out, f.Path); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), packed.Close())
}

func writeZip(w io.Writer, top string, files []File, date time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: top + "/" + f.Name, Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode())
		to, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if err := copyFile(to, f.Path); err != nil {
			return err
		}
	}
	return out.Close()
}

func copyFile(to io.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(to, in)
	return err
}

// Below lists the files of a folder, for an archive's folder to.
func Below(dir, to string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, File{Name: to + "/" + filepath.ToSlash(rel), Path: p})
		return err
	})
	return files, err
}
