package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ObjectWriter writes loose objects into a repository, without a process.
type ObjectWriter struct {
	Bare Bare

	mu      sync.Mutex
	written map[string]bool // names of objects that Put has stored; guarded by mu
	packer  *zlib.Writer    // guarded by mu; a new one takes longer than what it compresses
}

// Put writes an object of a kind, such as "blob", unless it is there, and returns its name.
func (w *ObjectWriter) Put(kind string, content []byte) (string, error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...)
	sum := sha1.Sum(raw)
	id := hex.EncodeToString(sum[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[id] {
		return id, nil
	}
	var packed bytes.Buffer
	if w.packer == nil {
		w.packer, w.written = zlib.NewWriter(&packed), map[string]bool{}
	}
	w.packer.Reset(&packed)
	if _, err := w.packer.Write(raw); err != nil {
		return "", err
	}
	if err := w.packer.Close(); err != nil {
		return "", err
	}
	path := filepath.Join(w.Bare.Dir, "objects", id[:2], id[2:])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".tmp", packed.Bytes(), 0o444); err != nil {
		return "", err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return "", err
	}
	w.written[id] = true
	return id, nil
}

// begin makes the first commit of a branch, which holds a README, as CommitExternal does: most tests begin so.
func (b Bare) begin(branch, readme string) error {
	w := ObjectWriter{Bare: b}
	blob, err := w.Put("blob", []byte(readme))
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(blob)
	if err != nil {
		return err
	}
	tree, err := w.Put("tree", append([]byte("100644 README.md\x00"), raw...))
	if err != nil {
		return err
	}
	who := fmt.Sprintf("%s <%[1]s@localhost> %d +0000", otherAuthor, time.Now().Unix())
	commit, err := w.Put("commit", fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %[2]s\n\nforeign", tree, who))
	if err != nil {
		return err
	}
	return b.UpdateRef("refs/heads/"+branch, commit, "")
}
