// Package v2 holds the types of the EMCO API v2: documents with their decoder and rules, and
// answers such as statuses, plans and views. A file has one resource or a family of them. The package also
// defines the keys of clusters, deployments and documents, and which values are secrets.
//
// Decoding matches members in any letter case and accepts the names of older releases. Lenient decoding drops unknown
// members, as upstream EMCO does; Strict decoding refuses them. Both refuse a member that is given twice, in whatever
// spelling; upstream EMCO picks one of them.
package v2

//go:generate go test -count=1 -run ^TestTheReferenceIsCurrent$ . -args -update

// Document is the interface of all documents for the generic REST resource.
type Document interface {
	// DocName returns the name as it stands in the item's path. It has two parts,
	// "name/version", for composite apps only.
	DocName() string
	// SetDocName names a document without a name; name has the form that DocName returns.
	SetDocName(name string)
	// Validate reports all violations in one error of kind errs.Invalid.
	Validate() error
}

// documentNormalizer is a document that clients may send in other forms than the canonical one.
type documentNormalizer interface{ normalize() }
