package seal

import (
	"fmt"
	"io"
	"log/slog"
)

const masked = "***"

// Secret is a secret in clear. It prints as *** with every verb, in JSON and in
// logs; converting it to []byte is the only way to its content. Keep it out of
// unexported fields of what may be printed: package fmt asks no methods there.
type Secret []byte

// Format writes the mask, for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// String returns the mask.
func (Secret) String() string { return masked }

// MarshalText returns the mask; JSON uses it as well.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }
