package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log of Pebble's is made of blocks, and these of chunks: checksum, 4 bytes; length, 2; type, 1; from type 5 on the
// number of the log, 4; from type 9 on how much of the log was synced before, 8; and the data.
const (
	chunkBlock = 32 << 10

	chunkFull, chunkFirst = 1, 2
	chunkRecyclable       = 5
	chunkSynced           = 9
	chunkTypes            = 13
)

// errPartial says that files of a database are missing.
var errPartial = errors.New("it has the logs or tables of a database, and not the file that says which")

// refuseDamaged looks for what Pebble does not: it takes a damaged chunk for the end of a log where nothing valid comes
// in a later block, and of its manifest in any case, and forgets all that was behind.
func refuseDamaged(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("listing directory: %w", err)
	}
	desc, err := pebble.Peek(dir, fsys)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, isLog := strings.CutSuffix(name, logSuffix)
		if !desc.Exists && (isLog || strings.HasSuffix(name, ".sst")) {
			// Pebble would make a new database beside them.
			return fmt.Errorf("%w (%s)", errPartial, name)
		}
		if n, err := strconv.ParseUint(number, 10, 64); isLog && err == nil {
			if err := scanLog(fsys, fsys.PathJoin(dir, name), func(c chunk, invalid int64) bool {
				return c.kind >= chunkSynced && c.log == uint32(n) && c.synced > invalid
			}); err != nil {
				return err
			}
		}
	}
	if !desc.Exists {
		return nil
	}
	// An entry of the manifest is synced before the next one is begun, so only the last one can be torn.
	return scanLog(fsys, desc.ManifestFilename, func(c chunk, _ int64) bool {
		return (c.kind == chunkFull || c.kind == chunkFirst) && c.length > 0
	})
}

// chunk is the header of a chunk whose checksum is right.
type chunk struct {
	kind, length, size int
	log                uint32
	synced             int64
}

// chunkAt reads a chunk of a block.
func chunkAt(b []byte) (c chunk, ok bool) {
	if len(b) < 7 {
		return c, false
	}
	c.length, c.kind = int(binary.LittleEndian.Uint16(b[4:])), int(b[6])
	if c.kind == 0 || c.kind >= chunkTypes {
		return c, false
	}
	header := 7
	if c.kind >= chunkRecyclable {
		header += 4
	}
	if c.kind >= chunkSynced {
		header += 8
	}
	if c.size = header + c.length; c.size > len(b) {
		return c, false
	}
	if c.kind >= chunkRecyclable {
		c.log = binary.LittleEndian.Uint32(b[7:])
	}
	if c.kind >= chunkSynced {
		c.synced = int64(binary.LittleEndian.Uint64(b[11:]))
	}
	sum := crc32.Checksum(b[6:c.size], castagnoli)
	return c, binary.LittleEndian.Uint32(b) == (sum>>15|sum<<17)+0xa282ead8
}

// scanLog fails where a chunk that is not valid is followed by one that proves that it was: a torn end has none.
func scanLog(fsys vfs.FS, name string, proves func(c chunk, invalid int64) bool) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	invalid := int64(-1) // where the first chunk is that is not valid
	block := make([]byte, chunkBlock)
	for begin := int64(0); ; begin += chunkBlock {
		n, err := io.ReadFull(f, block)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		b, at := block[:n], 0
		for invalid < 0 && at < n {
			c, ok := chunkAt(b[at:])
			if !ok {
				if !padding(b[at:]) {
					invalid = begin + int64(at)
				}
				break
			}
			at += c.size
		}
		for ; invalid >= 0 && at < n; at++ {
			if c, ok := chunkAt(b[at:]); ok && proves(c, invalid) {
				return fmt.Errorf("%w: %s is damaged at offset %d: what follows there was written later",
					pebble.ErrCorruption, name, invalid)
			}
		}
	}
}

// padding tells whether the rest of a block is too short for a chunk.
func padding(rest []byte) bool {
	for _, b := range rest {
		if b != 0 {
			return false
		}
	}
	return len(rest) < 19
}
