package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/spool"
)

// The entries of a backup, a tar file. The manifest is the last one, so a file that was cut off has none.
const (
	format         = 1
	etcdEntry      = "etcd.db"         // a snapshot of etcd, with its checksum
	documentsEntry = "documents.jsonl" // without it the documents are in etcd
	contentPrefix  = "content/"        // packages, by digest
	manifestEntry  = "manifest.json"
)

// Manifest lists what a backup holds.
type Manifest struct {
	Format    int               `json:"format"`
	Program   string            `json:"program"` // the version that wrote it
	Time      time.Time         `json:"time"`
	Driver    string            `json:"driver"` // of documents
	Documents int               `json:"documents"`
	Missing   []manifest.Digest `json:"missing,omitempty"` // packages that documents name, and the store did not have
	Sums      map[string]string `json:"sums"`              // SHA-256 of the other entries
}

// writer writes the entries of a backup.
type writer struct {
	tar *tar.Writer
	m   Manifest
}

func (b *writer) add(name string, size int64, r io.Reader) error {
	if err := b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: b.m.Time}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(b.tar, sum), r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.m.Sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// finish adds the manifest.
func (b *writer) finish() error {
	text, err := json.MarshalIndent(b.m, "", "  ")
	if err != nil {
		return err
	}
	err = b.tar.WriteHeader(&tar.Header{Name: manifestEntry, Mode: 0o600, Size: int64(len(text)), ModTime: b.m.Time})
	if err == nil {
		_, err = b.tar.Write(text)
	}
	return errors.Join(err, b.tar.Close())
}

// largestManifest bounds the manifest of a backup, in bytes.
const largestManifest = 64 << 20

// unpack reads a backup and hands its entries to take, except the manifest. It fails unless all entries are
// there and have their sums; what take has done by then must be dropped.
func unpack(path string, take func(name string, r io.Reader) error) (m Manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	sums := map[string]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return m, cutOff(path, err)
		}
		if err != nil {
			return m, fmt.Errorf("%s is no backup, or damaged: %w", path, err)
		}
		if h.Name == manifestEntry {
			if err := json.NewDecoder(io.LimitReader(r, largestManifest)).Decode(&m); err != nil {
				return m, fmt.Errorf("%s: the manifest is damaged: %w", path, err)
			}
			continue
		}
		if !known(h.Name) {
			return m, fmt.Errorf("%s has an entry %q, which is in no backup", path, h.Name)
		}
		sum := sha256.New()
		in := io.TeeReader(r, sum)
		err = take(h.Name, in)
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return m, cutOff(path, fmt.Errorf("%s: %w", h.Name, err))
		}
		if err != nil {
			return m, err
		}
		sums[h.Name] = hex.EncodeToString(sum.Sum(nil))
	}
	switch {
	case m.Format == 0:
		return m, fmt.Errorf("%s is cut off: it has no manifest; copy it again, or use another backup", path)
	case m.Format > format:
		return m, fmt.Errorf("%s was written by a later version of emco (%s); restore it with that", path, m.Program)
	case !maps.Equal(sums, m.Sums):
		return m, fmt.Errorf("%s is damaged: its content and its checksums differ", path)
	}
	return m, nil
}

// cutOff is the error of a backup that ends too early.
func cutOff(path string, err error) error {
	return fmt.Errorf("%s is cut off: copy it again, or use another backup (%w)", path, err)
}

func known(name string) bool {
	digest, content := strings.CutPrefix(name, contentPrefix)
	return name == etcdEntry || name == documentsEntry || content && spool.IsDigest(manifest.Digest(digest))
}
