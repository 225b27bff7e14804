package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
)

const (
	keySize = 32 // bytes; AES-256
	maxFile = 1 << 10
)

// Key is a sealing key. It prints as its id, never as its bytes.
type Key struct {
	bytes [keySize]byte
}

// ID names the key without revealing it: 16 hexadecimal digits of a hash. Everything that the
// key sealed begins with it.
func (k Key) ID() string { return hex.EncodeToString(k.id()) }

func (k Key) id() []byte {
	sum := sha256.Sum256(append([]byte("emco sealing key\x00"), k.bytes[:]...))
	return sum[:idSize]
}

// Format writes the id of the key, for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+k.ID()) }

// String returns the id of the key.
func (k Key) String() string { return "key " + k.ID() }

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k.bytes[:]) // never fails: the process ends if there is no randomness
	return k
}

// Secret returns the bytes of the key, to wrap them.
func (k Key) Secret() Secret { return k.bytes[:] }

// KeyOf returns the key of these bytes. The error is Invalid and does not repeat them.
func KeyOf(b Secret) (Key, error) {
	if len(b) != keySize {
		return Key{}, errs.New(errs.Invalid, fmt.Sprintf("a sealing key has %d bytes, not %d", keySize, len(b)))
	}
	return Key{bytes: [keySize]byte(b)}, nil
}

// ParseKey reads a key given as 32 bytes in standard base64; white space around
// it is ignored. The error is Invalid and does not repeat the text.
func ParseKey(text string) (Key, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != keySize {
		return Key{}, errs.New(errs.Invalid, "a sealing key is 32 bytes in base64, this is not")
	}
	return Key{bytes: [keySize]byte(raw)}, nil
}

// LoadOrCreateKey reads the key in the file at path, or creates the file with a new key. It
// refuses a file that others than its owner may read. Processes that start at the same time
// get the same key; a crash leaves the whole file or none.
func LoadOrCreateKey(path string) (Key, error) {
	k, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Key{}, errs.E(errs.Unavailable, "create sealing key", path, err)
	}
	return LoadKey(path)
}

// volumeMode is the mode of files of a Secret that Kubernetes mounts for a group (fsGroup).
const volumeMode = 0o440

// LoadKey reads the key in the file at path. It refuses a file that others than its owner may read, except in volumeMode. The
// error is fs.ErrNotExist if there is none.
func LoadKey(path string) (Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, errs.E(errs.Unavailable, "read sealing key", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, errs.E(errs.Unavailable, "read sealing key", path, err)
	}
	if perm := info.Mode().Perm(); !info.Mode().IsRegular() || perm&0o077 != 0 && perm != volumeMode {
		return Key{}, errs.E(errs.Invalid, "read sealing key", path,
			fmt.Errorf("mode is %v: it has to be a file only its owner may read, such as by chmod 600, or a read-only one of its owner and group (0440)", info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return Key{}, errs.E(errs.Unavailable, "read sealing key", path, err)
	}
	k, err := ParseKey(string(text))
	if err != nil {
		return Key{}, errs.E(errs.Invalid, "read sealing key", path, err)
	}
	return k, nil
}

// createKey writes a new key to a temporary file and links it to path, which fails with
// fs.ErrExist when another process was faster.
func createKey(path string) error {
	k := NewKey()
	tmp := path + ".new-" + rand.Text()
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	_, werr := f.WriteString(base64.StdEncoding.EncodeToString(k.bytes[:]) + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
