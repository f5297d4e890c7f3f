package parity

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/splits"
)

const ownersFile = "testdata/owners/owners.json"

// ownedPartitions are of topics whose hashes are positive, negative, overflowing and zero.
func ownedPartitions() (all []string) {
	for _, topic := range []string{"orders", "a", "payments.v2", "polygenelubricants", "AaAa", "BBBB", "a-much-longer-name_of.a-topic-0123456789"} {
		for p := range 4 {
			all = append(all, fmt.Sprintf("%s:%d", topic, p))
		}
	}
	return all
}

// TestOwnersAreFlinks compares which process reads a partition (G21) with what Flink's enumerator says.
func TestOwnersAreFlinks(t *testing.T) {
	text, err := os.ReadFile(ownersFile)
	require.NoError(t, err)
	var said map[string][]int32
	require.NoError(t, json.Unmarshal(text, &said))
	require.NotEmpty(t, said)
	for readers, owners := range said {
		n, err := strconv.ParseInt(readers, 10, 32)
		require.NoError(t, err)
		for i, p := range ownedPartitions() {
			topic, number, _ := strings.Cut(p, ":")
			partition, err := strconv.ParseInt(number, 10, 32)
			require.NoError(t, err)
			require.Equal(t, owners[i], splits.Owner(splits.Partition{Topic: topic, Partition: int32(partition)}, int32(n)), "%s of %s", p, readers)
		}
	}
}

// askOwners asks Flink for the owners, and compares them or writes them down.
func askOwners(t *testing.T, f *flink) {
	t.Helper()
	says := map[string][]int32{}
	for _, readers := range []int32{1, 2, 3, 7, 16} {
		says[fmt.Sprint(readers)] = f.owners(ownedPartitions(), readers)
	}
	text, err := json.Marshal(says)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(ownersFile, append(text, '\n'), 0o600))
		return
	}
	said, err := os.ReadFile(ownersFile)
	require.NoError(t, err)
	require.JSONEq(t, string(said), string(text))
}
