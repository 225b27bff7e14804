package v2

// Limits of the metadata object, in bytes, as in upstream's schemas.
const (
	MaxName        = 128
	MaxDescription = 1024
	MaxUserData    = 512
)

// Metadata is what all documents but cluster labels begin with. Answers always show
// its four members.
type Metadata struct {
	Name        string `json:"name"`        // unique in its collection; it stands in the path of the document
	Description string `json:"description"` // for people
	UserData1   string `json:"userData1"`   // for programs of users; EMCO stores it and does not read it
	UserData2   string `json:"userData2"`   // as userData1
}

// DocName returns the name.
func (m *Metadata) DocName() string { return m.Name }

// SetDocName sets the name if there is none.
func (m *Metadata) SetDocName(name string) {
	if m.Name == "" {
		m.Name = name
	}
}

func (m *Metadata) check(c *violationList) {
	c.name("metadata.name", m.Name)
	c.text("metadata.description", m.Description, MaxDescription)
	c.text("metadata.userData1", m.UserData1, MaxUserData)
	c.text("metadata.userData2", m.UserData2, MaxUserData)
}

// Named is the part that documents with metadata share; they embed it.
type Named struct {
	Metadata Metadata `json:"metadata"` // name and descriptions
}

// DocName returns metadata.name.
func (n *Named) DocName() string { return n.Metadata.DocName() }

// SetDocName sets metadata.name if there is none.
func (n *Named) SetDocName(name string) { n.Metadata.SetDocName(name) }

// Validate checks the metadata; documents with more than that override it.
func (n *Named) Validate() error {
	c := begin(n)
	return c.err()
}
