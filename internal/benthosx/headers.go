package benthosx

import (
	"fmt"
	"slices"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
)

// HeadersFrom reads the list of headers that a message has under a name, as the source sets it or as a mapping has made it:
// order and duplicates are kept, a null value is not an empty one (rule 9). found tells whether there is one; null is none.
// The list may be shared with copies of the message: nobody may change it, or append in place.
func HeadersFrom(msg *service.Message, name string) (headers Headers, found bool, err error) {
	value, _ := msg.MetaGetImmut(name)
	if untouched, ok := value.(Headers); ok {
		return slices.Clip(untouched), true, nil
	}
	list, _ := msg.MetaGetMut(name)
	entries, ok := list.([]any)
	switch {
	case list == nil:
		return nil, false, nil
	case !ok:
		return nil, true, fmt.Errorf("%s is no list; it has to be a list of {\"key\": ..., \"value\": ...} objects, or null for no headers", Show(list))
	case len(entries) == 0:
		return nil, true, nil
	}
	headers = make(Headers, len(entries))
	for i, e := range entries {
		if err := header(&headers[i], e); err != nil {
			return nil, true, fmt.Errorf("entry %d%w", i, err)
		}
	}
	return headers, true, nil
}

// header reads one entry. A field that is neither key nor value is a misspelt one: taken for a missing value it would
// make a null of what was meant.
func header(h *kgo.RecordHeader, entry any) error {
	object, ok := entry.(map[string]any)
	if !ok {
		return fmt.Errorf(": %s is no object; it has to be {\"key\": ..., \"value\": ...}", Show(entry))
	}
	switch k := object[HeaderKey].(type) {
	case string:
		h.Key = k
	case []byte:
		h.Key = string(k)
	case nil:
		return fmt.Errorf(": %s has no key; a header needs one, and it may be empty", Show(entry))
	default:
		return fmt.Errorf(": the key is %s, and has to be a string; .string() makes one", Show(k))
	}
	for name := range object {
		if name != HeaderKey && name != HeaderValue {
			return fmt.Errorf(" (%q) has a field %q; only key and value are known", h.Key, name)
		}
	}
	v := object[HeaderValue]
	if v == nil {
		return nil
	}
	value, err := Bytes(v)
	if err != nil {
		return fmt.Errorf(" (%q): %w", h.Key, err)
	}
	h.Value = value
	return nil
}
