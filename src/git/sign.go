package git

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Signer signs commits. It may be used by several goroutines at once.
type Signer interface {
	// Sign returns the armored signature of a commit as Git keeps it, without one.
	Sign(commit []byte) (string, error)
}

// Object returns the commit object of a message, signed if the message has a signer, and the
// signature alone, for servers that build the object themselves. Those need m.When, so it must be
// set then.
func (m Message) Object(tree Hash, parents ...Hash) (object []byte, signature string, err error) {
	var head bytes.Buffer
	fmt.Fprintf(&head, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&head, "parent %s\n", p)
	}
	who := m.Signature()
	fmt.Fprintf(&head, "author %s\ncommitter %s\n", who, who)
	body := "\n" + m.Text()
	if m.Signer == nil {
		return []byte(head.String() + body), "", nil
	}
	if signature, err = m.Signer.Sign([]byte(head.String() + body)); err != nil {
		return nil, "", err
	}
	lines := strings.ReplaceAll(strings.TrimRight(signature, "\n"), "\n", "\n ")
	return []byte(head.String() + "gpgsig " + lines + "\n" + body), signature, nil
}

// Dated returns the message with the time set, if it was not.
func (m Message) Dated() Message {
	if m.When.IsZero() {
		m.When = time.Now()
	}
	return m
}
