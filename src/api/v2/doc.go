// Package v2 holds the documents of the EMCO API v2: their wire form, how they are
// read from JSON, and the rules that they must meet. There is one file per resource.
//
// Documents are read leniently, as EMCO does: members match without regard to
// case, names of older releases are understood, unknown members are dropped. What
// EMCO silently guesses is refused: a member given twice, in whatever spelling.
package v2

// Document is what every resource's pointer type offers to the generic REST
// resource.
type Document interface {
	// DocName returns the name as it stands in the item's path. It has two parts,
	// "name/version", for composite apps only.
	DocName() string
	// SetDocName names a document that came without a name; name is as DocName
	// returns it.
	SetDocName(name string)
	// Validate reports all violations in one error of kind errs.Invalid.
	Validate() error
}

// normalizer is a document with a canonical form other than what clients may send.
type normalizer interface{ normalize() }
