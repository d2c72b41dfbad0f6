package client

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a password that no formatting shows: whatever verb, logger or encoder it meets, alone or inside another value,
// it reads "[redacted]" or as an address. Its zero value is the empty password. Two secrets are == only when one is a copy
// of the other, whatever they hold.
type Secret struct {
	// A pointer, because fmt shows unexported fields of other structs without asking their methods.
	text *string
}

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the password itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String implements fmt.Stringer; it does not return the password.
func (s Secret) String() string { return redacted }

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, and with it JSON, XML and YAML. It never fails.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
