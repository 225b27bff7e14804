package kek_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/kms/pkg/service"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// pluginSocket makes this test binary a KMS plugin at that socket.
const pluginSocket = "EMCO_TEST_KMS_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(pluginSocket); socket != "" {
		if err := service.NewGRPCService(socket, time.Second, &kms{key: os.Getenv("EMCO_TEST_KMS_KEY"), health: os.Getenv("EMCO_TEST_KMS_HEALTH")}).ListenAndServe(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// kms is a plugin that keeps its keys in memory: one of each name, derived from the name.
type kms struct{ key, health string }

func (k *kms) sealer(name string) *seal.Sealer {
	b := make([]byte, 32)
	copy(b, name)
	key, err := seal.ParseKey(base64.StdEncoding.EncodeToString(b))
	if err != nil {
		panic(err)
	}
	return seal.New(key)
}

func (k *kms) Encrypt(_ context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	note := make([]byte, 8)
	_, _ = rand.Read(note)
	return &service.EncryptResponse{
		Ciphertext: k.sealer(k.key).Seal(data, uid, string(note)), KeyID: k.key, Annotations: map[string][]byte{"note.example.org": note},
	}, nil
}

func (k *kms) Decrypt(ctx context.Context, uid string, r *service.DecryptRequest) ([]byte, error) {
	if k.key == "mortal" {
		os.Exit(1)
	}
	if strings.HasPrefix(r.KeyID, "destroyed") {
		return nil, errors.New("the key " + r.KeyID + " was destroyed")
	}
	return k.sealer(r.KeyID).Open(ctx, r.Ciphertext, uid, string(r.Annotations["note.example.org"]))
}

func (k *kms) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: k.health, KeyID: k.key}, nil
}

// startPlugin runs a plugin in a process of its own until the test ends or stop is called.
func startPlugin(t *testing.T, socket, key, health string) (stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pluginSocket+"="+socket, "EMCO_TEST_KMS_KEY="+key, "EMCO_TEST_KMS_HEALTH="+health)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.Remove(socket)
	}
	t.Cleanup(stop)
	return stop
}

func open(t *testing.T, address string) kek.Wrapper {
	t.Helper()
	w, err := kek.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A plugin of Kubernetes' KMS v2 protocol wraps data keys; what it wrapped with a former key stays open, and the
// error during its outage names its socket.
func TestAKMSPluginWrapsDataKeys(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kms.sock")
	stop := startPlugin(t, socket, "key-1", "ok")
	w, data := open(t, "kms://unix:"+socket), seal.NewKey()
	first, err := w.Wrap(t.Context(), data)
	if err != nil || first.KEK != "kms:key-1" || len(first.Annotations) != 1 {
		t.Fatalf("Wrap = %q, %v", first.KEK, err)
	}
	if bytes.Contains(first.Key, data.Secret()) {
		t.Error("the data key is in clear")
	}
	stop()
	stop = startPlugin(t, socket, "key-2", "ok") // the plugin rotated its key
	for range 2 {
		if got, err := w.Unwrap(t.Context(), data.ID(), first); err != nil || got != data {
			t.Fatalf("Unwrap after a restart of the plugin = %v, %v", got, err)
		}
	}
	second, err := w.Wrap(t.Context(), data)
	if err != nil || second.KEK != "kms:key-2" {
		t.Fatalf("Wrap = %q, %v", second.KEK, err)
	}
	for name, broken := range map[string]kek.Wrapped{
		"other annotations":         {KEK: second.KEK, Key: second.Key},
		"a destroyed key":           {KEK: "kms:destroyed-7", Key: second.Key},
		"the key of a file":         {KEK: data.ID(), Key: second.Key},
		"bytes that were changed":   {KEK: second.KEK, Key: append([]byte("x"), second.Key...), Annotations: second.Annotations},
		"the annotations of others": {KEK: second.KEK, Key: second.Key, Annotations: first.Annotations},
	} {
		if _, err := w.Unwrap(t.Context(), data.ID(), broken); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), data.ID()) {
			t.Errorf("%s: %v, want Unavailable with the socket and the data key", name, err)
		}
	}
	if _, err := w.Unwrap(t.Context(), "another", second); err == nil {
		t.Error("a data key opens under another id")
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := w.Wrap(ctx, data); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), socket) {
		t.Errorf("without the plugin: %v, want Unavailable with its socket", err)
	}
}

// A call that a restart of the plugin interrupts is made again.
func TestACallOutlivesARestartOfThePlugin(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kms.sock")
	stop := startPlugin(t, socket, "mortal", "ok") // it ends in the middle of the call
	w, data := open(t, "kms://unix:"+socket), seal.NewKey()
	wrapped, err := w.Wrap(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		got, err := w.Unwrap(t.Context(), data.ID(), wrapped)
		if err == nil && got != data {
			err = errors.New("another key came back")
		}
		answer <- err
	}()
	for { // until the plugin has ended
		conn, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	stop()
	startPlugin(t, socket, "key-2", "ok")
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func TestAnUnhealthyPluginWrapsNothing(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kms.sock")
	startPlugin(t, socket, "key-1", "its HSM is away")
	if _, err := open(t, "kms://unix:"+socket).Wrap(t.Context(), seal.NewKey()); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "its HSM is away") {
		t.Errorf("Wrap = %v", err)
	}
}

func TestKeysOfFilesAndTheEnvironment(t *testing.T) {
	one, two, data := seal.NewKey(), seal.NewKey(), seal.NewKey()
	file := filepath.Join(t.TempDir(), "kek")
	text := base64.StdEncoding.EncodeToString(one.Secret())
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EMCO_TEST_KEK", text)
	wrapped, err := open(t, "file://"+file).Wrap(t.Context(), data)
	if err != nil || wrapped.KEK != one.ID() || bytes.Contains(wrapped.Key, data.Secret()) {
		t.Fatalf("Wrap = %q, %v", wrapped.KEK, err)
	}
	if got, err := open(t, "env://EMCO_TEST_KEK").Unwrap(t.Context(), data.ID(), wrapped); err != nil || got != data {
		t.Errorf("the same key from the environment: %v", err)
	}
	_, err = kek.Local(two).Unwrap(t.Context(), data.ID(), wrapped)
	if !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), one.ID()) || !strings.Contains(err.Error(), two.ID()) || !strings.Contains(err.Error(), data.ID()) {
		t.Errorf("with another key: %v, want both keys and the data key", err)
	}
	if _, err := kek.Local(one).Unwrap(t.Context(), two.ID(), wrapped); err == nil {
		t.Error("a data key opens under the id of another")
	}
	if _, err := kek.Open("file://" + file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, address := range []string{"", "vault://x", "file://host/x", "file://rel", "kms://unix:rel", "kms://tcp:/x", "env://", "env://A/b", "file:///x?y", "kms://user@unix:/x"} {
		if _, err := kek.Open(address); !errs.Is(err, errs.Invalid) {
			t.Errorf("Open(%q) = %v, want Invalid", address, err)
		}
	}
	if _, err := kek.Open("env://EMCO_TEST_NO_SUCH"); err == nil || !strings.Contains(err.Error(), "EMCO_TEST_NO_SUCH") {
		t.Errorf("a missing variable: %v", err)
	}
}
