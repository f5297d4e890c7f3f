package benthosx

import (
	"os"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// earlyWait is how long a stop that was asked for early waits for a stream to start.
const earlyWait = 2 * time.Second

// holdEarlyStop keeps a SIGTERM that comes before Benthos listens for it, when streams may be running already, from
// ending the process on the spot: it is repeated once Benthos listens. A command that runs no stream ends by it as it
// would without this, only a moment later. It closes started when the streams of the start are made.
func holdEarlyStop(ended <-chan struct{}, started chan struct{}) service.CLIOptFunc {
	early := make(chan os.Signal, 1)
	notifyStop(early)
	go func() {
		select {
		case <-ended:
			return
		case <-started:
			return
		case <-early:
		}
		select {
		case <-ended:
		case <-started:
			signalUntil(ended)
		case <-time.After(earlyWait):
			if FatalCause() == nil {
				resetStop()
				signalSelf()
			}
		}
	}()
	var once sync.Once
	return service.CLIOptOnStreamStart(func(*service.RunningStreamSummary) error {
		once.Do(func() { close(started) })
		return nil
	})
}
