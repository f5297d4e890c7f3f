package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

// BenchmarkAdd measures what `sync` costs: one `dedupe` processor, and sixteen at a time.
func BenchmarkAdd(b *testing.B) {
	for _, sync := range []bool{true, false} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("sync=%v/writers=%d", sync, writers), func(b *testing.B) {
				conf, err := pebbleSpec().ParseYAML(fmt.Sprintf("path: %s\nsync: %v", b.TempDir(), sync), nil)
				require.NoError(b, err)
				c, err := pebbleFromConfig(process, conf, service.MockResources())
				require.NoError(b, err)
				defer c.Close(context.Background())
				var n atomic.Int64
				b.SetParallelism(max(1, writers/2))
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := c.Add(context.Background(), fmt.Sprint(n.Add(1)), []byte("t"), nil); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkPut measures what a checkpoint's record costs, its witness included.
func BenchmarkPut(b *testing.B) {
	for _, kind := range []string{"pebble", "checkpoint_file"} {
		b.Run(kind, func(b *testing.B) {
			s, err := openForChild(diskRegistry(b), kind, b.TempDir())
			require.NoError(b, err)
			defer s.Close(context.Background())
			record := make([]byte, 4<<10)
			n := uint64(0)
			for b.Loop() {
				n++
				require.NoError(b, s.Put(context.Background(), n, record))
			}
		})
	}
}
