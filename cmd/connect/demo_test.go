package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDemoHoldsItsFigures(t *testing.T) {
	out, err := connect(t, "demo", "--records", "5000", "--kills", "1", "--seed", "1").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, row := range []string{
		`records in +5,000\n`, `expected out +4,500\n`, `seen \(read_committed\) +4,500\n`, `lost +0\n`, `doubled +0\n`, `kills \(SIGKILL\) +1\n`, `longest pause +\d+\.\d\d s\n`,
	} {
		require.Regexp(t, row, string(out))
	}
}
