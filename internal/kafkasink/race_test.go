package kafkasink

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// driver plays the coordinator and the source: numbers are emitted by several writers at a time, barriers and failovers
// come at random, commits run while the next transaction fills, and batches of dead attempts come late.
type driver struct {
	*rig
	t   *testing.T
	rng *rand.Rand

	attempt uint64
	next    int // number to emit
	sealed  int // the numbers below it are in sealed transactions
	free    []int32
	open    int32
	commits sync.WaitGroup
	mu      sync.Mutex // guards free and errs, which commits touch
	errs    []error
	late    [][]Record // of dead attempts
	strays  sync.WaitGroup
}

func (d *driver) take() int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		return -1
	}
	id := d.free[0]
	d.free = d.free[1:]
	return id
}

func (d *driver) give(id int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, id)
}

func (d *driver) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
}

// begin starts the next attempt at what is sealed.
func (d *driver) begin() {
	d.commits.Wait() // so that an id is free
	d.attempt++
	d.open, d.next = d.take(), d.sealed
	d.Start(tag(d.attempt), d.open)
}

// emit writes some batches by several writers. stop, which may be nil, ends them early; it returns when all have ended.
func (d *driver) emit(batches int, during func()) {
	work := make(chan []Record, batches)
	for range batches {
		var values []string
		for range 1 + d.rng.IntN(20) {
			values = append(values, strconv.Itoa(d.next))
			d.next++
		}
		work <- d.batch(tag(d.attempt), values...)
	}
	close(work)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for batch := range work {
				if err := d.WriteBatch(d.t.Context(), batch); err != nil {
					d.failed(fmt.Errorf("writing: %w", err))
				}
			}
		})
	}
	if d.rng.IntN(3) == 0 && len(d.late) > 0 { // what fan_out_fail_fast or drop_on leave behind
		stray := d.late[d.rng.IntN(len(d.late))]
		d.strays.Go(func() {
			if err := d.WriteBatch(d.t.Context(), copyOf(stray)); err != nil {
				d.failed(fmt.Errorf("writing late: %w", err))
			}
		})
	}
	if during != nil {
		during()
	}
	writers.Wait()
}

// copyOf makes records that the client has not seen.
func copyOf(batch []Record) []Record {
	out := slices.Clone(batch)
	for i := range out {
		r := &out[i].Record
		*r = *newRecord(r.Topic, r.Key)
	}
	return out
}

func (d *driver) barrier() {
	require.NoError(d.t, d.Flush(d.t.Context()))
	next := d.take()
	c, err := d.Seal(next)
	require.NoError(d.t, err)
	if c == nil {
		d.give(next)
		return
	}
	d.sealed = d.next
	id := d.open
	before := &d.commits
	d.open = next
	before.Go(func() {
		verdict, err := d.Commit(d.t.Context(), *c)
		if err != nil || verdict != checkpoint.Committed {
			d.failed(fmt.Errorf("commit: %v %w", verdict, err))
			return
		}
		d.give(id)
	})
	if next < 0 {
		before.Wait()
		d.open = d.take()
		d.Open(d.open)
	}
}

// failover halts the attempt while it writes, and drops what is open.
func (d *driver) failover() {
	d.late = append(d.late, d.batch(tag(d.attempt), "late", "late"))
	d.emit(1+d.rng.IntN(30), func() {
		if err := d.Halt(d.t.Context()); err != nil {
			d.failed(err)
		}
	})
	open := d.open
	require.NoError(d.t, d.Abort(d.t.Context(), open))
	d.give(open)
	d.begin()
}

// TestEveryInterleavingKeepsExactlyOnce looks for a record lost or doubled by what can meet; see doc.go.
func TestEveryInterleavingKeepsExactlyOnce(t *testing.T) {
	cluster := realkafka.Shared(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			d := &driver{
				rig: realRig(t, cluster, func(c *Config, _ *seat) { c.MaxBufferedRecords = 100 }), t: t,
				rng: rand.New(rand.NewPCG(seed, 42)), free: []int32{0, 1, 2, 3},
			}
			require.NoError(t, d.InitIDs(t.Context(), []checkpoint.Pool{d.cfg.pool(d.clusterID)}))
			d.begin()
			failovers := 0
			for range 60 {
				d.emit(1+d.rng.IntN(20), nil)
				switch d.rng.IntN(4) {
				case 0:
					failovers++
					d.failover()
				default:
					d.barrier()
				}
			}
			d.barrier()
			d.commits.Wait()
			d.strays.Wait()
			require.Empty(t, d.errs)
			require.Empty(t, d.seat.failures())
			require.Empty(t, d.seat.fatals())
			want := make([]string, d.sealed)
			for n := range want {
				want[n] = strconv.Itoa(n)
			}
			slices.Sort(want)
			require.Equal(t, want, d.values(t))
			t.Logf("%d records, %d failovers, %d dropped", d.sealed, failovers, d.dropped.Load())
		})
	}
}
