package cache

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The keys of a Pebble database; doc.go has the table.
const (
	keyFormat    = "\x00format"
	keyStoreID   = "\x00store_id"
	spaceRecords = "\x00ckpt/"
	spaceIssued  = "\x00issued/"
	spaceEntries = "\x01"
	spaceExpiry  = "\x02"
)

// escape makes a stream id fit for a key and a file name, one to one: what is not a lower-case letter, a digit, '_' or
// '-' becomes %XX. Upper case too, since some file systems do not tell it from lower case.
func escape(streamID string) string {
	var b strings.Builder
	for i := range len(streamID) {
		c := streamID[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// recordSpace is what the keys of a stream's records begin with; escape leaves no '/', so no stream's space lies in
// another's.
func recordSpace(streamID string) []byte { return []byte(spaceRecords + escape(streamID) + "/") }

func issuedKey(streamID string) []byte { return []byte(spaceIssued + escape(streamID)) }

func recordKey(space []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(space[:len(space):len(space)], number)
}

// spaceEnd is the first key behind all that begin with space, whose last byte is not 0xff.
func spaceEnd(space []byte) []byte {
	end := append([]byte(nil), space...)
	end[len(end)-1]++
	return end
}

// entrySpace is what the keys of a cache with this prefix begin with.
func entrySpace(prefix string) []byte { return []byte(spaceEntries + prefix + "\x00") }

func entryKey(space []byte, key string) []byte {
	k := make([]byte, 0, len(space)+len(key))
	return append(append(k, space...), key...)
}

// expiryKey is the index entry of an entry that expires.
func expiryKey(expires int64, entry []byte) []byte {
	k := make([]byte, 0, len(spaceExpiry)+8+len(entry))
	k = append(k, spaceExpiry...)
	k = binary.BigEndian.AppendUint64(k, uint64(expires))
	return append(k, entry...)
}

// splitExpiryKey undoes expiryKey.
func splitExpiryKey(k []byte) (expires int64, entry []byte, err error) {
	k = k[len(spaceExpiry):]
	if len(k) < 8 {
		return 0, nil, fmt.Errorf("expiry index holds a key of %d bytes", len(k))
	}
	return int64(binary.BigEndian.Uint64(k)), k[8:], nil
}

// The shapes of an entry's value.
const (
	shapePlain   = 0 // the value follows
	shapeExpires = 1 // the expiry, 8 bytes, then the value
)

// encodeEntry copies the value behind its header; expires 0 is never.
func encodeEntry(value []byte, expires int64) []byte {
	if expires == 0 {
		return append(append(make([]byte, 0, 1+len(value)), shapePlain), value...)
	}
	b := append(make([]byte, 0, 9+len(value)), shapeExpires)
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	return append(b, value...)
}

// decodeEntry returns a view of the value, and when it expires: 0 is never.
func decodeEntry(b []byte) (value []byte, expires int64, err error) {
	switch {
	case len(b) >= 1 && b[0] == shapePlain:
		return b[1:], 0, nil
	case len(b) >= 9 && b[0] == shapeExpires:
		return b[9:], int64(binary.BigEndian.Uint64(b[1:])), nil
	case len(b) == 0:
		return nil, 0, fmt.Errorf("entry without a header: not written by Tidegate")
	}
	return nil, 0, fmt.Errorf("entry of unknown shape %d: written by a newer Tidegate, or damaged", b[0])
}

// expiryTime turns a time to live into a point in time. None is 0, never; one that is not positive expires at once.
func expiryTime(now time.Time, ttl *time.Duration) int64 {
	if ttl == nil {
		return 0
	}
	return max(1, now.Add(*ttl).UnixMilli())
}
