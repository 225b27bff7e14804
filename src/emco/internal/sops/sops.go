// Package sops encrypts the values of a Secret as SOPS does (github.com/getsops/sops), for age recipients
// (filippo.io/age): who has the private key of a recipient can read them, with sops or with Flux. The program
// itself has no such key. The library of SOPS would add the clients of all clouds to the program, so this is a
// writer of the one form that EMCO needs.
package sops

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"
)

// maxRecipients bounds the recipients of a cluster: each adds to every encrypted Secret.
const maxRecipients = 10

// Recipients reads the public keys of age in a text, separated by commas or blanks, sorted and each once.
// Errors are safe to show.
func Recipients(text string) ([]string, error) {
	keys := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 || len(keys) > maxRecipients {
		return nil, fmt.Errorf("give 1 to %d public keys of age, separated by commas", maxRecipients)
	}
	for _, key := range keys {
		if strings.HasPrefix(strings.ToUpper(key), "AGE-SECRET-KEY-") {
			return nil, errors.New("has a private key; give the public key, which age-keygen -y prints")
		}
		if _, err := age.ParseX25519Recipient(key); err != nil {
			return nil, errors.New("has a key that is no public key of age, such as age1…")
		}
	}
	return keys, nil
}

const (
	regex        = "^(data|stringData)$" // of the members whose values are encrypted
	version      = "3.9.0"               // of SOPS, which knows all of what is written
	keySize      = 32
	nonceSize    = 32
	metadataName = "sops"
)

// macStart is what SOPS hashes first for a code that covers encrypted values only.
var macStart = []byte{
	0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0xb,
	0xb, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
}

// metadata is the member sops of an encrypted document.
type metadata struct {
	Age              []ageKey `json:"age"`
	EncryptedRegex   string   `json:"encrypted_regex"`
	LastModified     string   `json:"lastmodified"`
	MAC              string   `json:"mac"`
	MACOnlyEncrypted bool     `json:"mac_only_encrypted"` // so that labels may be added to the document
	Version          string   `json:"version"`
}

// ageKey is the data key for one recipient.
type ageKey struct {
	Enc       string `json:"enc"`
	Recipient string `json:"recipient"`
}

// Encrypt returns a document, a JSON object, with the values below members data and stringData encrypted for
// the recipients. Each call draws a key, so equal documents become different ones. The code of the whole
// document follows the order of members that package yaml writes. Errors show no value.
func Encrypt(document []byte, recipients []string, now time.Time) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, errors.New("the document is no JSON object")
	}
	if _, there := tree[metadataName]; there {
		return nil, errors.New("the document has a member sops already")
	}
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithNonceSize(block, nonceSize)
	if err != nil {
		return nil, err
	}
	w := treeEncrypter{aead: aead, mac: sha512.New()}
	w.mac.Write(macStart)
	if err := w.object(tree, "", false); err != nil {
		return nil, err
	}
	at := now.UTC().Format(time.RFC3339)
	meta := metadata{LastModified: at, EncryptedRegex: regex, MACOnlyEncrypted: true, Version: version}
	if meta.MAC, err = w.encrypt(fmt.Sprintf("%X", w.mac.Sum(nil)), "str", at); err != nil {
		return nil, err
	}
	for _, r := range recipients {
		enc, err := wrap(key, r)
		if err != nil {
			return nil, err
		}
		meta.Age = append(meta.Age, ageKey{Recipient: r, Enc: enc})
	}
	tree[metadataName] = meta
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(tree)
	return out.Bytes(), err
}

// wrap encrypts a data key for a recipient.
func wrap(key []byte, recipient string) (string, error) {
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return "", errors.New("a recipient is no public key of age")
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(key); err != nil {
		return "", err
	}
	if err := errors.Join(w.Close(), text.Close()); err != nil {
		return "", err
	}
	return out.String(), nil
}

// treeEncrypter encrypts values in the order of their document.
type treeEncrypter struct {
	aead cipher.AEAD
	mac  hash.Hash // of what is encrypted
}

// object encrypts the members of an object in the order of package yaml. path is that of the
// object, each part followed by a colon, and within means that it is below data or stringData.
func (w treeEncrypter) object(tree map[string]any, path string, within bool) error {
	names, err := order(tree)
	if err != nil {
		return err
	}
	for _, name := range names {
		inside := within || name == "data" || name == "stringData"
		if tree[name], err = w.value(tree[name], path+name+":", inside); err != nil {
			return err
		}
	}
	return nil
}

func (w treeEncrypter) value(v any, path string, within bool) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return v, w.object(v, path, within)
	case []any: // items have the path of their list
		var err error
		for i := range v {
			if v[i], err = w.value(v[i], path, within); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	if !within || v == nil {
		return v, nil
	}
	text, kind, err := scalar(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(path, ":"), err)
	}
	w.mac.Write([]byte(text))
	if kind == "str" && text == "" {
		return "", nil // as SOPS does
	}
	return w.encrypt(text, kind, path)
}

// scalar returns a value as SOPS writes it, and SOPS' name of its type.
func scalar(v any) (text, kind string, err error) {
	switch v := v.(type) {
	case string:
		return v, "str", nil
	case bool:
		return map[bool]string{true: "True", false: "False"}[v], "bool", nil
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return strconv.Itoa(n), "int", nil
		}
		f, err := v.Float64()
		if err != nil {
			return "", "", errors.New("is a number out of range")
		}
		return strconv.FormatFloat(f, 'f', -1, 64), "float", nil
	}
	return "", "", fmt.Errorf("has a value of type %T", v)
}

// encrypt encrypts a text for its place.
func (w treeEncrypter) encrypt(text, kind, place string) (string, error) {
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	out := w.aead.Seal(nil, nonce, []byte(text), []byte(place))
	data, tag := out[:len(out)-w.aead.Overhead()], out[len(out)-w.aead.Overhead():]
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", b64(data), b64(nonce), b64(tag), kind), nil
}

// order returns the names of an object's members in the order of package yaml.
func order(tree map[string]any) ([]string, error) {
	names := make(map[string]bool, len(tree))
	for name := range tree {
		names[name] = true
	}
	var node yaml.Node
	if err := node.Encode(names); err != nil {
		return nil, err
	}
	var out []string
	for i := 0; i < len(node.Content); i += 2 {
		out = append(out, node.Content[i].Value)
	}
	return out, nil
}
