package kafkasource

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/splits"
)

// A compressed batch is unpacked whole, and a megabyte of it may stand for gigabytes: one such batch would end the process by
// its memory limit, and the next start too, with no word in the log. So there is a bound, by how much memory there is.
const (
	// unpackMost is the most that a batch may take where the process has no memory limit, or a large one; unpackLeast is
	// taken however small the limit is.
	unpackMost  = 1 << 30
	unpackLeast = 64 << 20
	// unpackPart is the part of the memory limit that one batch may take: it is there twice while it grows, and its
	// records come on top.
	unpackPart = 4
)

// unpackLimit is how much a batch may take unpacked.
func unpackLimit() int64 {
	return min(max(debug.SetMemoryLimit(-1)/unpackPart, unpackLeast), unpackMost)
}

// newUnpacker returns the client's own decompressor with a limit, beyond which it says kgo.ErrMaxDecompress. The client
// gives it to nobody but through an option of a client, so one is built that connects to nothing.
func newUnpacker(limit int64) (kgo.Decompressor, error) {
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(int(limit)))
	if err != nil {
		return nil, fmt.Errorf("building the decompressor: %w", err)
	}
	defer client.Close()
	unpack, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, errors.New("building the decompressor: the Kafka client has none")
	}
	return unpack, nil
}

// isAnswerTooLarge tells whether the client has refused a broker's answer for its size. It says so of no partition, and has no
// error of its own for it.
func isAnswerTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "exceeds BrokerMaxReadBytes")
}

// answerTooLarge is what to say of that: it is so again when the client asks again.
func answerTooLarge(err error) error {
	return fmt.Errorf("fetching: a batch is larger than what is taken from a broker at once (100 MB, or twice properties.fetch.max.bytes), "+
		"and nothing of it is skipped; set properties.fetch.max.bytes to half of the batch's size, or to more: %w", err)
}

// tooLarge is what to say of a batch beyond the limit. It will be so the next time.
func tooLarge(at splits.Partition, e *kgo.ErrDecompressTooLarge, limit int64) error {
	return fmt.Errorf("fetching %v: the compressed batch with offsets %d to %d takes more than %d MB unpacked, which is as much as one "+
		"batch may (a quarter of the process's memory limit, at most %d MB): nothing of it is skipped, and reading ends here. Give "+
		"the process more memory (the container's limit, or GOMEMLIMIT), or begin at offset %d with startup.mode: specific-offsets "+
		"and new state", at, e.Offset, e.NextOffset-1, limit>>20, unpackMost>>20, e.NextOffset)
}
