package kafkaclient

import "log/slog"

// Secret is a text that nothing prints by accident (rule 13): what formats, logs or encodes it, also as a part of
// something else, gets [secret] or an address.
type Secret struct{ text *string }

// NewSecret makes a text one.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Empty tells whether there is no text.
func (s Secret) Empty() bool { return s.text == nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

const hidden = "[secret]"

func (Secret) String() string { return hidden }

// GoString is for %#v.
func (Secret) GoString() string { return hidden }

// LogValue is for log/slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText is for encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
