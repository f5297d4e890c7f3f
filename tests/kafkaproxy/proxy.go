package kafkaproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Side is the direction a Rule looks at.
type Side uint8

// The sides.
const (
	Request Side = iota
	Answer
)

// Effect is what a Rule does to a frame.
type Effect uint8

// The effects.
const (
	// Drop swallows the frame; the connection stays open, so the client waits.
	Drop Effect = iota
	// Delay holds the frame, and all behind it on its connection, for the rule's Delay.
	Delay
	// Cut closes the connection instead of passing the frame on.
	Cut
)

// Rule acts on the frames of one kind of request.
type Rule struct {
	// Key is the request's api key, such as kmsg.EndTxn.
	Key    kmsg.Key
	Side   Side
	Effect Effect
	Delay  time.Duration
	// After is how many frames pass before it acts.
	After int
	// Times is how often it acts; 0 or less: until Clear.
	Times int
}

func (r Rule) String() string {
	side, effect := [...]string{"request", "answer"}[r.Side], [...]string{"drop", "delay", "cut"}[r.Effect]
	return fmt.Sprintf("%s %s of %s", effect, side, r.Key.Name())
}

type rule struct {
	Rule
	pass, left, hits int
}

// Proxy stands before every broker of a cluster.
type Proxy struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	addrs []string
	// ports maps a broker's port to the proxy's.
	ports     map[int32]int32
	listeners []net.Listener

	mu      sync.Mutex
	rules   []*rule
	severed bool
	conns   map[net.Conn]struct{}
}

// New starts a proxy before the brokers, whose addresses are host:port.
func New(brokers []string) (*Proxy, error) {
	p := &Proxy{ports: map[int32]int32{}, conns: map[net.Conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for _, b := range brokers {
		_, port, err := net.SplitHostPort(b)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("address of a broker: %w", err)
		}
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("port of broker %s: %w", b, err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("listening: %w", err)
		}
		p.listeners = append(p.listeners, l)
		p.addrs = append(p.addrs, l.Addr().String())
		p.ports[int32(n)] = int32(l.Addr().(*net.TCPAddr).Port)
	}
	for i, l := range p.listeners {
		p.wg.Go(func() { p.accept(l, brokers[i]) })
	}
	return p, nil
}

// Bootstrap are the addresses to connect to.
func (p *Proxy) Bootstrap() []string { return p.addrs }

// Set replaces the rules.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	for _, r := range rules {
		p.rules = append(p.rules, &rule{Rule: r, pass: r.After, left: r.Times})
	}
}

// Clear removes the rules and returns how often they acted.
func (p *Proxy) Clear() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		hits += r.hits
	}
	p.rules = nil
	return hits
}

// Hits is how often the rules have acted.
func (p *Proxy) Hits() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		hits += r.hits
	}
	return hits
}

// Sever cuts every connection and lets none in, or lets them in again.
func (p *Proxy) Sever(severed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = severed
	if severed {
		for c := range p.conns {
			c.Close()
		}
	}
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() {
	p.cancel()
	for _, l := range p.listeners {
		l.Close()
	}
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener, broker string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c, broker) })
	}
}

// register notes a connection, so that Sever and Close reach it; it tells whether it may live.
func (p *Proxy) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.severed || p.ctx.Err() != nil {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) unregister(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// link is one client connection and its broker connection.
type link struct {
	p              *Proxy
	client, broker net.Conn

	mu sync.Mutex
	// asked are the requests under way by correlation id.
	asked map[int32]asked
}

type asked struct {
	key     kmsg.Key
	version int16
}

func (p *Proxy) serve(client net.Conn, addr string) {
	defer client.Close()
	if !p.register(client) {
		return
	}
	defer p.unregister(client)
	broker, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(p.ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer broker.Close()
	if !p.register(broker) {
		return
	}
	defer p.unregister(broker)
	l := &link{p: p, client: client, broker: broker, asked: map[int32]asked{}}
	var both sync.WaitGroup
	for _, side := range []Side{Request, Answer} {
		both.Go(func() {
			l.pass(side)
			// One direction's end is the other's.
			client.Close()
			broker.Close()
		})
	}
	both.Wait()
}

// pass hands frames on in one direction until an error, or a rule that cuts.
func (l *link) pass(side Side) {
	from, to := l.client, l.broker
	if side == Answer {
		from, to = to, from
	}
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		a, ok := l.identify(side, frame)
		if ok {
			switch act, delay := l.p.match(side, a.key); {
			case act == nil:
			case *act == Drop:
				continue
			case *act == Cut:
				return
			default:
				select {
				case <-time.After(delay):
				case <-l.p.ctx.Done():
					return
				}
			}
			if side == Answer {
				frame = l.p.rewrite(a, frame)
			}
		}
		if err := writeFrame(to, frame); err != nil {
			return
		}
	}
}

// identify names a frame: a request by its header, an answer by the request it belongs to.
func (l *link) identify(side Side, frame []byte) (asked, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if side == Request {
		if len(frame) < 8 {
			return asked{}, false
		}
		a := asked{kmsg.Key(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))}
		l.asked[int32(binary.BigEndian.Uint32(frame[4:]))] = a
		return a, true
	}
	if len(frame) < 4 {
		return asked{}, false
	}
	id := int32(binary.BigEndian.Uint32(frame))
	a, ok := l.asked[id]
	delete(l.asked, id)
	return a, ok
}

// match finds the first rule for the frame that still acts.
func (p *Proxy) match(side Side, key kmsg.Key) (*Effect, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.Side != side || r.Key != key || r.Times > 0 && r.left == 0 {
			continue
		}
		if r.pass > 0 {
			r.pass--
			continue
		}
		r.left--
		r.hits++
		return &r.Effect, r.Delay
	}
	return nil, 0
}

const maxFrame = 128 << 20

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, errors.New("frame too large")
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	out := binary.BigEndian.AppendUint32(make([]byte, 0, len(frame)+4), uint32(len(frame)))
	_, err := w.Write(append(out, frame...))
	return err
}
