package benthosx

import (
	"context"
	"sync/atomic"
	"time"
)

// lifetime is the context that Benthos runs under. Its end is how Fatal asks Benthos to stop: a signal, which asks in the
// same words as an operator, would have the log say that somebody had sent one.
//
// Benthos asks for Done first where it waits for a signal or this, and again where it closes, for a limit. An ended context
// would make that a hard stop, so who asks later gets none.
type lifetime struct {
	context.Context
	over  chan struct{}
	asked atomic.Bool
}

func newLifetime() *lifetime {
	return &lifetime{Context: context.Background(), over: make(chan struct{})}
}

func (l *lifetime) Done() <-chan struct{} {
	if l.asked.CompareAndSwap(false, true) {
		return l.over
	}
	return nil
}

// lifetimePatience is how long Benthos has to notice the end of its lifetime, and to close, until a signal is sent as well.
const lifetimePatience = 5 * time.Second

// end ends it, and signals where that is not enough: where somebody else has asked before Benthos did.
func (l *lifetime) end(ended <-chan struct{}) {
	close(l.over)
	select {
	case <-ended:
	case <-time.After(lifetimePatience):
		signalUntil(ended)
	}
}
