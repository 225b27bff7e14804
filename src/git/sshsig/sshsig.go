// Package sshsig signs commits with an SSH key, as "git commit -S" does with
// gpg.format=ssh. Whoever has the public key among the allowed signers verifies them with
// "git verify-commit" or "git log --show-signature".
package sshsig

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	magic     = "SSHSIG"
	namespace = "git"
	hash      = "sha512"
	lineWidth = 70
)

// Signer signs with one key. It may be used by several goroutines at once.
type Signer struct{ key ssh.AlgorithmSigner }

// New returns a signer with a private key in PEM: ed25519, ECDSA or RSA, without a
// passphrase. Invalid if it is none; the error shows nothing of it.
func New(key []byte) (*Signer, error) {
	parsed, err := ssh.ParsePrivateKey(key)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errs.E(errs.Invalid, "read", "signing key", errors.New("it is protected by a passphrase; give one that is not"))
	}
	signer, ok := parsed.(ssh.AlgorithmSigner)
	if err != nil || !ok {
		return nil, errs.E(errs.Invalid, "read", "signing key", errors.New("it is no private SSH key in PEM, of type ed25519, ecdsa or rsa"))
	}
	return &Signer{key: signer}, nil
}

// PublicKey returns the key that verifies signatures, in the format of authorized_keys and
// allowed signers, without a line break.
func (s *Signer) PublicKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.key.PublicKey())))
}

// Sign returns the armored signature of a text.
func (s *Signer) Sign(text []byte) (string, error) {
	digest := sha512.Sum512(text)
	signed := ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}{namespace, "", hash, digest[:]})
	algorithm := s.key.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512 // the format knows no SHA-1
	}
	sig, err := s.key.SignWithAlgorithm(rand.Reader, append([]byte(magic), signed...), algorithm)
	if err != nil {
		return "", errs.E(errs.Internal, "sign", "commit", err)
	}
	blob := ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{1, s.key.PublicKey().Marshal(), namespace, "", hash, ssh.Marshal(sig)})
	return armor(append([]byte(magic), blob...)), nil
}

func armor(blob []byte) string {
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for text := base64.StdEncoding.EncodeToString(blob); text != ""; {
		n := min(lineWidth, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}
