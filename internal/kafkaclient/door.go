package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// knocks is how often a broker has to refuse a connection in a row until that is taken for its last word, and
	// knockPause the time in between: one that has just come back may not have all users yet.
	knocks     = 3
	knockPause = time.Second
	// knockTimeout bounds one of these connections.
	knockTimeout = 10 * time.Second
)

// Door is a hook for all clients of a source or sink that notices when a broker refuses a new connection. The clients try
// again for ever then, and say so in the log alone, while connections that were made before a change of the password go on
// answering: nothing else tells that a fetch, say, never gets through (rule 13).
type Door struct{ refused chan string }

var _ kgo.HookBrokerConnect = (*Door)(nil)

// NewDoor returns a hook; Watch does the rest.
func NewDoor() *Door { return &Door{refused: make(chan string, 1)} }

// OnBrokerConnect is called by the clients. One address is enough: it is asked again when it refuses again.
func (d *Door) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if !Final(err) {
		return
	}
	select {
	case d.refused <- net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))):
	default:
	}
}

// Watch returns why a broker refuses connections, once it has refused those of its own too, several in a row. It returns nil
// when ctx ends. options are the connection's, without the hook.
func (d *Door) Watch(ctx context.Context, options []kgo.Opt, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case addr := <-d.refused:
			if err := knock(ctx, options, addr); Final(err) {
				return fmt.Errorf("a broker refuses a new connection, %s: %w", addr, WithCause(err))
			} else if err == nil {
				log.Debug("a broker that has refused a connection takes new ones again", "broker", addr)
			}
		}
	}
}

// knock makes new connections to addr until one is not refused, and returns the last one's error.
func knock(ctx context.Context, options []kgo.Opt, addr string) (err error) {
	for n := range knocks {
		if n > 0 {
			t := time.NewTimer(knockPause)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
		}
		if err = knockOnce(ctx, options, addr); !Final(err) {
			return err
		}
	}
	return err
}

func knockOnce(ctx context.Context, options []kgo.Opt, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	// Its own log lines are those of the client that was refused before.
	cl, err := kgo.NewClient(append(options[:len(options):len(options)], kgo.SeedBrokers(addr), kgo.WithLogger(NewLogger(nil)))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	seeds := cl.SeedBrokers()
	if len(seeds) == 0 {
		return errors.New("no address")
	}
	_, err = seeds[0].Request(ctx, metadataRequest())
	if err != nil {
		return explainListener(ctx, cl, addr, err)
	}
	return nil
}
