package kafkasource

import (
	"bytes"
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestABatchMayTakeAQuarterOfTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, tc := range map[string]struct{ limit, want int64 }{
		"none":  {math.MaxInt64, unpackMost},
		"large": {64 << 30, unpackMost},
		"1 GB":  {1 << 30, 256 << 20},
		"small": {50 << 20, unpackLeast},
	} {
		debug.SetMemoryLimit(tc.limit)
		require.Equal(t, tc.want, unpackLimit(), name)
	}
}

// TestABatchThatUnpacksBeyondTheLimitEndsTheStreamWithItsOffsets: a few kilobytes stand for megabytes, by each codec. What
// comes before the batch is not lost, nothing of it is skipped, and the probe takes the same way.
func TestABatchThatUnpacksBeyondTheLimitEndsTheStreamWithItsOffsets(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "before")
			fill(t, b.servers, "a", 1, 1, 900_000, codec)
			s := newSource(t, baseConfig(b.servers, "a"))
			var err error
			s.limit = 500_000
			s.unpack, err = newUnpacker(s.limit)
			require.NoError(t, err)
			s.resolve(nil)
			require.Equal(t, []string{"a-0@0=before"}, s.read(1))
			s.background()
			err = receive(t, s.seat.fatal, "the end")
			require.ErrorContains(t, err, "fetching a-0: the compressed batch with offsets 1 to 1 takes more than 0 MB unpacked")
			require.ErrorContains(t, err, "Give the process more memory")
			require.Equal(t, []int64{1}, offsetsOf(s.att.state()))
		})
	}
}

func TestTheUnpackerTakesWhatIsWithinTheLimit(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 100_000)
	compressor, err := kgo.DefaultCompressor(kgo.ZstdCompression())
	require.NoError(t, err)
	packed, codec := compressor.Compress(&bytes.Buffer{}, content)
	unpack, err := newUnpacker(100_000)
	require.NoError(t, err)
	got, err := unpack.Decompress(packed, codec)
	require.NoError(t, err)
	require.Equal(t, content, got)
	unpack, err = newUnpacker(99_999)
	require.NoError(t, err)
	_, err = unpack.Decompress(packed, codec)
	require.ErrorIs(t, err, kgo.ErrMaxDecompress)
}
