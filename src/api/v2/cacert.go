package v2

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"
)

// CACert is a certificate authority for clusters: an issuer signs an intermediate certificate for each of
// them, with which cert-manager signs certificates of workloads there.
type CACert struct {
	Named
	Spec CACertSpec `json:"spec"` // who signs, and what
}

// CACertSpec is who signs the certificates of the clusters, and their form.
type CACertSpec struct {
	IsCA           bool           `json:"isCA"`               // true: the certificates sign those of workloads
	IssuerRef      IssuerRef      `json:"issuerRef"`          // who signs
	IssuingCluster IssuingCluster `json:"issuingCluster"`     // where the issuer is
	Duration       string         `json:"duration,omitempty"` // how long a certificate is valid, such as 8760h; empty is 2160h
	CSR            CSRInfo        `json:"csrInfo"`            // what the certificates say
}

// IssuerRef names an issuer of cert-manager.
type IssuerRef struct {
	Name  string `json:"name"`            // of the issuer
	Kind  string `json:"kind,omitempty"`  // ClusterIssuer, or Issuer; empty is Issuer
	Group string `json:"group,omitempty"` // cert-manager.io, or the API group of another issuer; empty is cert-manager.io
}

// IssuingCluster is the cluster whose issuer signs.
type IssuingCluster struct {
	ClusterProvider string `json:"clusterProvider"`     // of the cluster
	Cluster         string `json:"cluster"`             // a cluster that EMCO reaches directly
	Namespace       string `json:"namespace,omitempty"` // of the requests, and of an Issuer; empty is default. Not in upstream EMCO
}

// Key returns the key of the cluster.
func (i IssuingCluster) Key() ClusterKey { return NewClusterKey(i.ClusterProvider, i.Cluster) }

// CSRInfo is the content of the requests for certificates.
type CSRInfo struct {
	KeySize        int          `json:"keySize,omitempty"`        // bits of a key: 2048, 3072 or 4096 for RSA; 256, 384 or 521 for ECDSA; 0 is the first
	Version        int          `json:"version,omitempty"`        // has no effect: requests have one version
	DNSNames       []string     `json:"dnsNames,omitempty"`       // that the certificates are for
	EmailAddresses []string     `json:"emailAddresses,omitempty"` // that the certificates are for
	KeyUsages      []string     `json:"keyUsages,omitempty"`      // such as cert sign; empty: cert sign, crl sign and digital signature
	Algorithm      CSRAlgorithm `json:"algorithm"`                // of keys and signatures
	Subject        CSRSubject   `json:"subject"`                  // whom the certificates are for
}

// CSRAlgorithm names algorithms.
type CSRAlgorithm struct {
	PublicKey string `json:"publicKeyAlgorithm,omitempty"` // RSA, ECDSA or Ed25519; empty is RSA
	Signature string `json:"signatureAlgorithm,omitempty"` // of the request, such as SHA512WithRSA; empty: what suits the key
}

// CSRSubject is whom a certificate is for.
type CSRSubject struct {
	Locale       CSRLocale       `json:"locale"`       // where that is
	Names        CSRNames        `json:"names"`        // what it is called
	Organization CSROrganization `json:"organization"` // whose it is
}

// CSRLocale is a place.
type CSRLocale struct {
	Country       []string `json:"country,omitempty"`       // two letters each
	Locality      []string `json:"locality,omitempty"`      // a town
	PostalCode    []string `json:"postalCode,omitempty"`    // of the town
	Province      []string `json:"province,omitempty"`      // or state
	StreetAddress []string `json:"streetAddress,omitempty"` // in the town
}

// CSRNames holds the beginning of the common names.
type CSRNames struct {
	CommonNamePrefix string `json:"commonNamePrefix"` // each certificate adds the names of its cluster
}

// CSROrganization is an organization.
type CSROrganization struct {
	Names []string `json:"names,omitempty"` // of the organization
	Units []string `json:"units,omitempty"` // of the organization
}

// Limits of certificate authorities.
const (
	maxCommonNamePrefix = 40
	maxSubjectNames     = 10  // entries of a list of a subject
	maxSubjectName      = 128 // characters of an entry
	maxCSRNames         = 100 // entries of a list of names
	shortestCACert      = time.Hour
	longestCACert       = 10 * 366 * 24 * time.Hour
	defaultCACert       = 90 * 24 * time.Hour
)

// CertManagerGroup is the API group of cert-manager's objects.
const CertManagerGroup = "cert-manager.io"

// The public key algorithms, in upstream's words.
const (
	KeyRSA     = "RSA"
	KeyECDSA   = "ECDSA"
	KeyEd25519 = "Ed25519"
)

// keySizes are the sizes of keys by algorithm, the one of empty first.
var keySizes = map[string][]int{KeyRSA: {2048, 3072, 4096}, KeyECDSA: {256, 384, 521}, KeyEd25519: {0}}

// signatureAlgorithms are the algorithms of signatures by that of the key, in upstream's words.
var signatureAlgorithms = map[string][]string{
	KeyRSA:     {"SHA256WithRSA", "SHA384WithRSA", "SHA512WithRSA", "SHA256WithRSAPSS", "SHA384WithRSAPSS", "SHA512WithRSAPSS"},
	KeyECDSA:   {"ECDSAWithSHA256", "ECDSAWithSHA384", "ECDSAWithSHA512"},
	KeyEd25519: {"PureEd25519"},
}

// keyUsages are cert-manager's names of usages.
var keyUsages = []string{
	"signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment", "cert sign", "crl sign",
	"encipher only", "decipher only", "any", "server auth", "client auth", "code signing", "email protection", "s/mime",
	"ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc",
}

// normalize fills in what is left out.
func (r *CACert) normalize() {
	s := &r.Spec
	if s.IssuerRef.Kind == "" {
		s.IssuerRef.Kind = "Issuer"
	}
	if s.IssuerRef.Group == "" {
		s.IssuerRef.Group = CertManagerGroup
	}
	if s.IssuingCluster.Namespace == "" {
		s.IssuingCluster.Namespace = "default"
	}
	if s.Duration == "" {
		s.Duration = defaultCACert.String()
	}
	if a := &s.CSR.Algorithm; a.PublicKey == "" {
		a.PublicKey = KeyRSA
	}
	if sizes := keySizes[s.CSR.Algorithm.PublicKey]; s.CSR.KeySize == 0 && len(sizes) > 0 {
		s.CSR.KeySize = sizes[0]
	}
	if len(s.CSR.KeyUsages) == 0 {
		s.CSR.KeyUsages = []string{"cert sign", "crl sign", "digital signature"}
	}
}

// Validate checks metadata and spec.
func (r *CACert) Validate() error {
	c := begin(&r.Named)
	s := r.Spec
	if !s.IsCA {
		c.fail("spec.isCA", "must be true; the certificates sign those of workloads")
	}
	c.objectName("spec.issuerRef.name", s.IssuerRef.Name)
	if s.IssuerRef.Group == CertManagerGroup && s.IssuerRef.Kind != "ClusterIssuer" && s.IssuerRef.Kind != "Issuer" {
		c.fail("spec.issuerRef.kind", "%s is neither ClusterIssuer nor Issuer", quote(s.IssuerRef.Kind))
	}
	c.text("spec.issuerRef.kind", s.IssuerRef.Kind, maxLabelValue)
	c.objectName("spec.issuerRef.group", s.IssuerRef.Group)
	c.name("spec.issuingCluster.clusterProvider", s.IssuingCluster.ClusterProvider)
	c.name("spec.issuingCluster.cluster", s.IssuingCluster.Cluster)
	if n := s.IssuingCluster.Namespace; len(n) > maxLabelValue || !labelPattern.MatchString(n) {
		c.fail("spec.issuingCluster.namespace", "%s is no namespace", quote(n))
	}
	if d, err := time.ParseDuration(s.Duration); err != nil || d < shortestCACert || d > longestCACert {
		c.fail("spec.duration", "%s is no duration from 1h to %s, such as 8760h", quote(s.Duration), longestCACert)
	}
	s.CSR.check(c)
	return c.err()
}

// Valid returns how long a certificate is asked for.
func (s CACertSpec) Valid() time.Duration {
	d, err := time.ParseDuration(s.Duration)
	if err != nil {
		return defaultCACert
	}
	return d
}

func (i CSRInfo) check(c *violationList) {
	const at = "spec.csrInfo."
	key := i.Algorithm.PublicKey
	sizes, known := keySizes[key]
	switch {
	case !known:
		c.fail(at+"algorithm.publicKeyAlgorithm", "%s is none of RSA, ECDSA, Ed25519", quote(key))
	case !slices.Contains(sizes, i.KeySize):
		c.fail(at+"keySize", "%d is no size of %s keys that EMCO makes: %s", i.KeySize, key, strings.Trim(fmt.Sprint(sizes), "[]"))
	case i.Algorithm.Signature != "" && !slices.Contains(signatureAlgorithms[key], i.Algorithm.Signature):
		c.fail(at+"algorithm.signatureAlgorithm", "%s is none of %s, which suit %s keys", quote(i.Algorithm.Signature), strings.Join(signatureAlgorithms[key], ", "), key)
	}
	c.between(at+"version", i.Version, 0, 3)
	c.entries(at+"dnsNames", i.DNSNames, maxCSRNames, func(s string) bool { return len(s) <= maxObjectName && domainPattern.MatchString(s) }, "host name in lower case")
	c.entries(at+"emailAddresses", i.EmailAddresses, maxCSRNames, isAddress, "address such as ca@example.org")
	c.entries(at+"keyUsages", i.KeyUsages, len(keyUsages), func(s string) bool { return slices.Contains(keyUsages, s) }, "usage that cert-manager knows, such as cert sign")
	i.Subject.check(c, at+"subject.")
}

func (s CSRSubject) check(c *violationList, at string) {
	if p := s.Names.CommonNamePrefix; p == "" || len(p) > maxCommonNamePrefix || !isPrintable(p) {
		c.fail(at+"names.commonNamePrefix", "%s is no text of 1 to %d printable ASCII characters", quote(p), maxCommonNamePrefix)
	}
	c.entries(at+"locale.country", s.Locale.Country, maxSubjectNames, func(s string) bool { return len(s) == 2 && isPrintable(s) }, "country of two letters")
	word := func(s string) bool { return s != "" && len(s) <= maxSubjectName && !strings.ContainsFunc(s, isControl) }
	for field, list := range map[string][]string{
		"locale.locality": s.Locale.Locality, "locale.postalCode": s.Locale.PostalCode, "locale.province": s.Locale.Province,
		"locale.streetAddress": s.Locale.StreetAddress, "organization.names": s.Organization.Names, "organization.units": s.Organization.Units,
	} {
		c.entries(at+field, list, maxSubjectNames, word, fmt.Sprintf("text of 1 to %d bytes without control characters", maxSubjectName))
	}
	c.sort()
}

// entries checks a list that may be missing; what describes a valid entry.
func (c *violationList) entries(field string, values []string, most int, valid func(string) bool, what string) {
	if len(values) > most {
		c.fail(field, "%d entries, at most %d are allowed", len(values), most)
		return
	}
	for i, v := range values {
		if !valid(v) {
			c.fail(fmt.Sprintf("%s[%d]", field, i), "%s is no %s", quote(v), what)
		}
	}
}

// objectName requires a name that Kubernetes accepts for most objects.
func (c *violationList) objectName(field, s string) {
	if len(s) > maxObjectName || strings.HasPrefix(s, "*") || !domainPattern.MatchString(s) {
		c.fail(field, "%s is no name of an object; use lower-case letters, digits, '-' and '.'", quote(s))
	}
}

func isAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= maxObjectName && isPrintable(s)
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// CACertCluster selects clusters that get a certificate authority: one cluster, or those with a label. In a
// project, only members of the logical cloud count.
type CACertCluster struct {
	Named
	Spec CACertClusterSpec `json:"spec"` // the clusters
}

// CACertClusterSpec selects clusters.
type CACertClusterSpec struct {
	Scope           string `json:"scope"`             // name or label
	ClusterProvider string `json:"clusterProvider"`   // of the clusters
	Cluster         string `json:"cluster,omitempty"` // the cluster, if the scope is name
	Label           string `json:"label,omitempty"`   // the label, if the scope is label
}

// The scopes of documents that select clusters.
const (
	ScopeName  = "name"
	ScopeLabel = "label"
)

// Validate checks metadata and spec.
func (r *CACertCluster) Validate() error {
	c := begin(&r.Named)
	c.name("spec.clusterProvider", r.Spec.ClusterProvider)
	switch r.Spec.Scope {
	case ScopeName:
		c.name("spec.cluster", r.Spec.Cluster)
	case ScopeLabel:
		c.name("spec.label", r.Spec.Label)
	default:
		c.fail("spec.scope", "%s is neither name nor label", quote(r.Spec.Scope))
	}
	return c.err()
}

// CACertLogicalCloud is a logical cloud whose clusters get a certificate authority for it.
type CACertLogicalCloud struct {
	Named
	Spec CACertLogicalCloudSpec `json:"spec"` // the logical cloud
}

// CACertLogicalCloudSpec names the logical cloud.
type CACertLogicalCloudSpec struct {
	LogicalCloud string `json:"logicalCloud"` // of the same project
}

// Validate checks metadata and spec.
func (r *CACertLogicalCloud) Validate() error {
	c := begin(&r.Named)
	c.name("spec.logicalCloud", r.Spec.LogicalCloud)
	return c.err()
}
