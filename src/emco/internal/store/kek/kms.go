package kek

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kms "k8s.io/kms/apis/v2"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

const (
	kmsPatience = 10 * time.Second // for one call
	kmsAnswer   = 64 << 10         // largest answer, in bytes
	kmsPrefix   = "kms:"           // of ids of key-encryption keys; a plugin chooses the rest
)

// kmsSocket returns the path of the socket in kms://unix:/PATH; empty for another form.
func kmsSocket(u *url.URL) string {
	host, _, _ := strings.Cut(u.Host, ":")
	if host != "unix" || !strings.HasPrefix(u.Path, "/") {
		return ""
	}
	return u.Path
}

// plugin is a plugin of Kubernetes' KMS v2 protocol.
type plugin struct {
	socket string
	client kms.KeyManagementServiceClient
}

// kmsRetries has gRPC repeat calls that a restart of the plugin interrupts: no call of the protocol changes anything.
const kmsRetries = `{"methodConfig": [{"name": [{"service": "v2.KeyManagementService"}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// dialKMS returns the plugin at a socket. It connects with the first call, and again after each failure. The
// connection lives until the process ends.
func dialKMS(socket string) (Wrapper, error) {
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(kmsRetries),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(kmsAnswer), grpc.WaitForReady(true)))
	if err != nil {
		return nil, errs.E(errs.Invalid, "reach", "the KMS plugin at "+socket, err)
	}
	return plugin{socket, kms.NewKeyManagementServiceClient(c)}, nil
}

// Wrap implements Wrapper.
func (p plugin) Wrap(ctx context.Context, k seal.Key) (Wrapped, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsPatience)
	defer cancel()
	if err := p.healthy(ctx); err != nil {
		return Wrapped{}, err
	}
	r, err := p.client.Encrypt(ctx, &kms.EncryptRequest{Plaintext: k.Secret(), Uid: k.ID()})
	if err != nil {
		return Wrapped{}, p.failed("wrap data key "+k.ID(), err)
	}
	if len(r.Ciphertext) == 0 || r.KeyId == "" {
		return Wrapped{}, p.failed("wrap data key "+k.ID(), errors.New("the answer has no ciphertext or no key id"))
	}
	return Wrapped{KEK: kmsPrefix + r.KeyId, Key: r.Ciphertext, Annotations: r.Annotations}, nil
}

// Unwrap implements Wrapper.
func (p plugin) Unwrap(ctx context.Context, id string, w Wrapped) (seal.Key, error) {
	keyID, ok := strings.CutPrefix(w.KEK, kmsPrefix)
	if !ok {
		return seal.Key{}, missing(id, w.KEK, "the KMS plugin at "+p.socket)
	}
	ctx, cancel := context.WithTimeout(ctx, kmsPatience)
	defer cancel()
	r, err := p.client.Decrypt(ctx, &kms.DecryptRequest{Ciphertext: w.Key, Uid: id, KeyId: keyID, Annotations: w.Annotations})
	if err != nil {
		return seal.Key{}, p.failed(fmt.Sprintf("unwrap data key %s with key %s", id, keyID), err)
	}
	return keyOf(id, r.Plaintext)
}

// healthy asks the plugin whether it works.
func (p plugin) healthy(ctx context.Context) error {
	s, err := p.client.Status(ctx, &kms.StatusRequest{})
	switch {
	case err != nil:
		return p.failed("status", err)
	case s.Version != "v2" && s.Version != "v2beta1":
		return p.failed("status", fmt.Errorf("its protocol is %q, not v2", s.Version))
	case s.Healthz != "ok":
		return p.failed("status", fmt.Errorf("it is not healthy: %q", s.Healthz))
	}
	return nil
}

func (p plugin) failed(op string, err error) error {
	return errs.E(errs.Unavailable, op, "the KMS plugin at "+p.socket, err)
}
