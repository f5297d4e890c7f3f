package kafkaflinksource

import (
	"os"
	"testing"

	"github.com/tidegate/tidegate/internal/benthosx"
)

func TestMain(m *testing.M) {
	benthosx.AcceptTopology() // Streams are built in code here.
	os.Exit(m.Run())
}
