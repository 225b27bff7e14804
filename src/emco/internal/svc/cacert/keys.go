package cacert

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// keyDocument is the body of the document of a place's key. The key itself is the document's secret: it is sealed,
// and never leaves EMCO but to its cluster.
type keyDocument struct {
	Request string    `json:"request"` // in PEM
	For     string    `json:"for"`     // digest of what the request follows from
	At      time.Time `json:"at"`      // when it was made
}

// keyring reads and makes the keys of the places of a certificate authority. They are documents below that of
// its enrollment.
type keyring struct {
	db         *store.DB
	enrollment store.Key // document of the enrollment
	now        func() time.Time
}

func (k keyring) key(p certificatePlace) store.Key {
	return k.enrollment + "/keys/" + store.Key(p.name())
}

// ensure returns the request of a place, with a new key if it has none, if the certificate authority has changed, or
// after two thirds of the life of a certificate.
func (k keyring) ensure(ctx context.Context, ca authority, p certificatePlace, life time.Duration) (keyDocument, error) {
	doc, err := k.db.Get(ctx, k.key(p))
	missing := errs.Is(err, errs.NotFound)
	if err != nil && !missing {
		return keyDocument{}, err
	}
	if !missing {
		have, err := store.Decode[keyDocument](doc)
		if err != nil || have.For == digestOf(ca) && k.now().Before(renewal(have.At, life)) {
			return have, err
		}
	}
	secret, request, err := newKey(ca, p)
	if err != nil {
		return keyDocument{}, errs.E(errs.Internal, "make a key for", string(p.cluster), err)
	}
	made := keyDocument{Request: request, For: digestOf(ca), At: k.now().UTC()}
	body, err := json.Marshal(made)
	if err != nil {
		return keyDocument{}, errs.E(errs.Internal, "encode", string(k.key(p)), err)
	}
	w := store.Write{Key: k.key(p), Parent: k.enrollment, Body: body, Secret: secret}
	if missing {
		_, err = k.db.Create(ctx, w)
	} else {
		w.UID = doc.UID
		_, err = k.db.Replace(ctx, w, doc.Rev)
	}
	return made, err
}

// get returns the request and the key of a place. Invalid if there is none for the document as it is now.
func (k keyring) get(ctx context.Context, ca authority, p certificatePlace) (keyDocument, seal.Secret, error) {
	doc, err := k.db.Get(ctx, k.key(p))
	if errs.Is(err, errs.NotFound) {
		return keyDocument{}, nil, errs.New(errs.Invalid, p.name()+" is not enrolled; update the enrollment first")
	}
	if err != nil {
		return keyDocument{}, nil, err
	}
	have, err := store.Decode[keyDocument](doc)
	if err != nil {
		return have, nil, err
	}
	if have.For != digestOf(ca) {
		return have, nil, errs.New(errs.Invalid, p.name()+" was enrolled before the certificate authority was changed; update the enrollment first")
	}
	secret, err := k.db.Reveal(ctx, doc)
	return have, secret, err
}

// renewAt returns when the first key must be renewed; zero if there is none.
func (k keyring) renewAt(ctx context.Context, life time.Duration) (first time.Time, err error) {
	for key, err := range store.All[keyDocument](ctx, k.db, k.enrollment+"/keys", store.Query{Depth: 1}) {
		if err != nil {
			return first, err
		}
		first = earlier(first, renewal(key.Value.At, life))
	}
	return first, nil
}

// keepOnly removes the keys of all other places.
func (k keyring) keepOnly(ctx context.Context, places []certificatePlace) error {
	keep := map[store.Key]bool{}
	for _, p := range places {
		keep[k.key(p)] = true
	}
	for doc, err := range k.db.List(ctx, k.enrollment+"/keys", store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		if keep[doc.Key] {
			continue
		}
		if err := k.db.Delete(ctx, doc.Key, nil); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
	return nil
}

// digestOf identifies what the certificates of an authority follow from.
func digestOf(ca authority) string {
	text, err := json.Marshal(ca.Spec)
	if err != nil {
		panic(err) // a type without functions, channels and numbers that JSON does not have
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// newKey makes a key and the request to sign it, both in PEM.
func newKey(ca authority, p certificatePlace) (key seal.Secret, request string, err error) {
	info := ca.Spec.CSR
	private, err := privateKey(info)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, "", err
	}
	s := info.Subject
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{
			Country: s.Locale.Country, Locality: s.Locale.Locality, PostalCode: s.Locale.PostalCode, Province: s.Locale.Province,
			StreetAddress: s.Locale.StreetAddress, Organization: s.Organization.Names, OrganizationalUnit: s.Organization.Units,
			CommonName: commonName(s.Names.CommonNamePrefix, p),
		},
		DNSNames: info.DNSNames, EmailAddresses: info.EmailAddresses, SignatureAlgorithm: signatures[info.Algorithm.Signature],
	}, private)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})), nil
}

func privateKey(info v2.CSRInfo) (crypto.Signer, error) {
	switch info.Algorithm.PublicKey {
	case v2.KeyECDSA:
		curve := map[int]elliptic.Curve{256: elliptic.P256(), 384: elliptic.P384(), 521: elliptic.P521()}[info.KeySize]
		if curve == nil {
			return nil, errors.New("no curve has a key of this size")
		}
		return ecdsa.GenerateKey(curve, rand.Reader)
	case v2.KeyEd25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return rsa.GenerateKey(rand.Reader, info.KeySize)
}

// signatures are the algorithms that documents name; zero is what suits the key.
var signatures = map[string]x509.SignatureAlgorithm{
	"SHA256WithRSA": x509.SHA256WithRSA, "SHA384WithRSA": x509.SHA384WithRSA, "SHA512WithRSA": x509.SHA512WithRSA,
	"SHA256WithRSAPSS": x509.SHA256WithRSAPSS, "SHA384WithRSAPSS": x509.SHA384WithRSAPSS, "SHA512WithRSAPSS": x509.SHA512WithRSAPSS,
	"ECDSAWithSHA256": x509.ECDSAWithSHA256, "ECDSAWithSHA384": x509.ECDSAWithSHA384, "ECDSAWithSHA512": x509.ECDSAWithSHA512,
	"PureEd25519": x509.PureEd25519,
}

// maxCommonName is the longest common name of a certificate.
const maxCommonName = 64

// commonName names a place after its prefix, with a digest if the names are too long.
func commonName(prefix string, p certificatePlace) string {
	if name := prefix + "-" + p.name(); len(name) <= maxCommonName {
		return name
	}
	return prefix + "-" + shortDigest(p.name())
}

// shortDigest makes names unique within one certificate authority.
func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
