package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

func TestPrefixBelongsToOneStreamOfTheProcess(t *testing.T) {
	one := checkpoint.NewStream(checkpoint.StreamOptions{ID: "one"})
	two := checkpoint.NewStream(checkpoint.StreamOptions{ID: "two"})
	pool := checkpoint.Pool{ClusterID: "c", Prefix: t.Name(), Size: 3}
	release, err := HoldPrefix(pool, one)
	require.NoError(t, err)
	again, err := HoldPrefix(pool, one)
	require.NoError(t, err, "the sink of a reloaded stream takes over")
	release()
	release()
	_, err = HoldPrefix(pool, two)
	require.ErrorContains(t, err, `is in use by stream "one" of this process`)
	other := pool
	other.ClusterID = "another cluster"
	release, err = HoldPrefix(other, two)
	require.NoError(t, err)
	release()
	again()
	release, err = HoldPrefix(pool, two)
	require.NoError(t, err)
	release()
}
