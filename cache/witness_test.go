package cache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// A write of the witness that a power cut tears spoils one of its lines, and the other still tells.
func TestWitnessOutlivesATornWrite(t *testing.T) {
	tears := map[string]func(line, page []byte){
		"one byte":             func(line, _ []byte) { line[3] = 'x' },
		"another number":       func(line, _ []byte) { line[19]++ },
		"the end of the line":  func(line, _ []byte) { clear(line[15:]) },
		"the page is zero":     func(_, page []byte) { clear(page) },
		"the page is anything": func(_, page []byte) { copy(page, strings.Repeat("\xa5", len(page))) },
	}
	for name, tear := range tears {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			w := newWitness(fsys, "/", "", anchoredHere)
			require.NoError(t, w.confirm("/", 0))
			for n := uint64(1); n <= 5; n++ {
				require.NoError(t, w.note(n))
				again := newWitness(fsys, "/", "", anchoredHere)
				require.NoError(t, again.confirm("/", n))
				require.Equal(t, w.turn, again.turn, "the line of the lower number is next")
				data, err := fsys.UnsafeGetFileDataBuffer(w.file)
				require.NoError(t, err)
				intact := append([]byte(nil), data...)
				page := data[(1-w.turn)*witnessPage:] // the page that note has just written
				page = page[:min(len(page), witnessPage)]
				tear(page[:len(witnessed(0))], page)

				next := newWitness(fsys, "/", "", anchoredHere)
				var lost *LostRecordError
				if n > 1 {
					require.ErrorAs(t, next.confirm("/", n-2), &lost)
					require.Equal(t, n-1, lost.Witnessed)
				}
				// The record was durable before, so it is found, and the line that was spoilt is the next to be written.
				require.NoError(t, next.confirm("/", n))
				require.NoError(t, next.note(n))
				require.ErrorAs(t, newWitness(fsys, "/", "", anchoredHere).confirm("/", n-1), &lost)
				require.Equal(t, n, lost.Witnessed)
				copy(data, intact)
			}
		})
	}
}

func anchoredHere() error { return nil }

// No crash spoils both lines. A disk that does may have spoilt anything, and a person has to look.
func TestWitnessThatSaysNothingIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": string(witnessed(5)[:20]), "zero": strings.Repeat("\x00", 2*witnessPage),
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			w := newWitness(fsys, "/", "", anchoredHere)
			writeText(t, fsys, w.file, text)
			err := w.confirm("/", 5)
			require.ErrorContains(t, err, "is damaged")
			require.ErrorContains(t, err, "to start from record 5, remove the file")
		})
	}
}

// cutter cuts the power before each operation on the files of ours, and keeps what the disk then holds.
type cutter struct {
	mem             *vfs.MemFS
	armed           bool
	reported, begun uint64 // numbers of records
	disks           []cut
	random          uint64
}

type cut struct {
	disk            *vfs.MemFS
	before          string
	reported, begun uint64
}

func (c *cutter) String() string { return "cutter" }

func (c *cutter) MaybeError(op errorfs.Op) error {
	if !c.armed || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.Contains(op.Path, streamDir) {
		return nil
	}
	c.random++
	for _, percent := range []int{0, 50, 100} {
		c.disks = append(c.disks, cut{
			disk:   c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(c.random, 11))}),
			before: fmt.Sprintf("%v %s", op.Kind, op.Path), reported: c.reported, begun: c.begun,
		})
	}
	return nil
}

// A power cut at any step of a store's life, from the making of its witness on, is no loss: the next start finds the
// newest record that was reported, or the one that was being written, and accuses nobody.
func TestPowerCutAroundTheWitnessIsNoLoss(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		mem := vfs.NewCrashableMem()
		cuts := &cutter{mem: mem, armed: true}
		c := open(t, testRegistry(t, errorfs.Wrap(mem, cuts)))
		s := mustOpenStore(t, c, "", 2)
		_ = latest(t, s)
		for n := uint64(1); n <= 4; n++ {
			cuts.begun = n
			require.NoError(t, s.Put(t.Context(), n, []byte("x")))
			cuts.reported = n
		}
		cuts.armed = false
		mustClose(t, c)
		require.Greater(t, len(cuts.disks), 3*5)
		for _, cut := range cuts.disks {
			got, err := tryLatestOn(t, cut.disk, open)
			require.NoError(t, err, "before %s, when %d was reported", cut.before, cut.reported)
			allowed := []string{nameOf(cut.reported), nameOf(cut.begun)}
			require.Contains(t, allowed, got, "before %s", cut.before)
		}
	})
}

func nameOf(number uint64) string {
	if number == 0 {
		return "none:0"
	}
	return fmt.Sprintf("%d:x", number)
}

// A kill between a record and its witness leaves the witness one behind. Whoever reads that record acts on it, so from
// then on its loss has to be noticed.
func TestRecordThatIsReadIsWitnessed(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		disk := vfs.NewCrashableMem()
		before := vfs.NewMem()
		c := open(t, testRegistry(t, noLock{disk}))
		s := mustOpenStore(t, c, "", 2)
		require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
		copyFile(t, disk, before, "/state/stream-.newest")
		require.NoError(t, s.Put(t.Context(), 2, []byte("two")))
		mustClose(t, c)
		copyFile(t, before, disk, "/state/stream-.newest")

		require.Equal(t, "2:two", latestOn(t, noLock{disk}, open))
		var lost *LostRecordError
		w := newWitness(disk, "/state", "", anchoredHere)
		require.ErrorAs(t, w.confirm("/state", 1), &lost)
		require.EqualValues(t, 2, lost.Witnessed)
	})
}

func copyFile(t *testing.T, from, to *vfs.MemFS, name string) {
	t.Helper()
	data, err := readFile(from, name)
	require.NoError(t, err)
	require.NoError(t, to.MkdirAll(to.PathDir(name), 0o755))
	writeText(t, to, name, string(data))
}

// An older version, or a person, has left no witness. What is found then may only be visible: if a power cut takes it
// before it is made durable, nobody has acted on it, and nothing was lost.
func TestStoreWithoutAWitnessIsTakenAsItIs(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		disk := vfs.NewCrashableMem()
		lossy := newLossyFS(disk)
		killed := open(t, testRegistry(t, lossy))
		s := mustOpenStore(t, killed, "", 2)
		require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
		lossy.lossy.Store(true)
		require.NoError(t, s.Put(t.Context(), 2, []byte("two")))
		lossy.lossy.Store(false)
		require.NoError(t, disk.Remove("/state/stream-.newest"))

		next := open(t, testRegistry(t, noLock{disk}))
		opened := mustOpenStore(t, next, "", 2)
		got, err := tryLatestOn(t, powerCut(disk), open)
		require.NoError(t, err)
		require.Contains(t, []string{"1:one", "2:two"}, got)
		require.Equal(t, "2:two", latest(t, opened))
		for _, cut := range powerCuts(disk) {
			require.Equal(t, "2:two", latestOn(t, cut, open))
		}
		mustClose(t, next)
		require.Equal(t, "2:two", latestOn(t, noLock{disk}, open))
		require.ErrorContains(t, newWitness(disk, "/state", "", anchoredHere).confirm("/state", 1), "checkpoint record 2 was written")
	})
}

// A copy that was made while the job ran may hold a witness of another moment than the records.
func TestCopyOfAStoreIsTakenIfItsRecordsAreNotOlderThanItsWitness(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		disk := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, noLock{disk}))
		s := mustOpenStore(t, c, "", 2)
		var at []*vfs.MemFS
		for n := uint64(1); n <= 3; n++ {
			require.NoError(t, s.Put(t.Context(), n, []byte("x")))
			at = append(at, copyOf(disk))
		}
		mustClose(t, c)
		copied := func(records, witness int) *vfs.MemFS {
			whole := copyOf(at[records-1])
			copyFile(t, at[witness-1], whole, "/state/stream-.newest")
			return whole
		}
		require.Equal(t, "3:x", latestOn(t, copied(3, 3), open))
		require.Equal(t, "3:x", latestOn(t, copied(3, 1), open), "the witness was copied first")
		var lost *LostRecordError
		_, err := tryLatestOn(t, copied(2, 3), open)
		require.ErrorAs(t, err, &lost, "the witness was copied last")
		require.Equal(t, []uint64{2, 3}, []uint64{lost.Found, lost.Witnessed})
		without := copied(2, 2)
		require.NoError(t, without.Remove("/state/stream-.newest"))
		require.Equal(t, "2:x", latestOn(t, without, open), "the witness was not copied")
	})
}

// Each stream of a store has a witness of its own, also where its name is longer than a file's may be.
func TestStreamsOfOneStoreAreWitnessedApart(t *testing.T) {
	long := strings.Repeat("Streams.Of.The.Shop.", 12)
	disk := vfs.NewMem()
	c := pebbleOn(t, testRegistry(t, noLock{disk}), "path: /state")
	ids := []string{"", "a", "A", "a.newest", long + "1", long + "2"}
	for i, id := range ids {
		s := mustOpenStore(t, c, id, 2)
		require.NoError(t, s.Put(t.Context(), uint64(i+1), []byte("x")))
	}
	mustClose(t, c)
	witnesses := map[string]bool{}
	for _, id := range ids {
		w := newWitness(disk, "/state", id, anchoredHere)
		witnesses[w.file] = true
		require.LessOrEqual(t, len(disk.PathBase(w.file)+tempSuffix), 255)
	}
	require.Len(t, witnesses, len(ids))

	// One that has lost its newest record is refused, and the others go on.
	require.NoError(t, newWitness(disk, "/state", "a", anchoredHere).bring(t, 9))
	c = pebbleOn(t, testRegistry(t, noLock{disk}), "path: /state")
	defer mustClose(t, c)
	for i, id := range ids {
		s, err := c.OpenStore(t.Context(), id, 2)
		if id == "a" {
			var lost *LostRecordError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, []uint64{2, 9}, []uint64{lost.Found, lost.Witnessed})
			continue
		}
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d:x", i+1), latest(t, s))
	}
}

// bring makes a witness say a number.
func (w *witness) bring(t *testing.T, number uint64) error {
	t.Helper()
	require.NoError(t, w.confirm("", number))
	return w.note(number)
}

// `on_stop: delete` leaves the highest number, and the witness still guards it.
func TestDeletedRecordsAreNoLostOnes(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		disk := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, noLock{disk}))
		s := mustOpenStore(t, c, "", 2)
		for n := uint64(1); n <= 3; n++ {
			require.NoError(t, s.Put(t.Context(), n, []byte("x")))
		}
		require.NoError(t, s.DeleteAll(t.Context()))
		mustClose(t, c)
		for range 2 {
			require.Equal(t, "none:3", latestOn(t, noLock{disk}, open))
		}
		c = open(t, testRegistry(t, noLock{disk}))
		s = mustOpenStore(t, c, "", 2)
		require.NoError(t, s.Put(t.Context(), 4, []byte("x")))
		mustClose(t, c)
		require.Equal(t, "4:x", latestOn(t, noLock{disk}, open))
	})
}

// Only the newest record counts. Those that are retained beside it are for people, who may remove them.
func TestRetainedRecordsMayBeRemoved(t *testing.T) {
	disk := vfs.NewMem()
	open := func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }
	c := open(t, testRegistry(t, noLock{disk}))
	s := mustOpenStore(t, c, "", 3)
	for n := uint64(1); n <= 5; n++ {
		require.NoError(t, s.Put(t.Context(), n, []byte("x")))
	}
	mustClose(t, c)
	for _, n := range []uint64{3, 4} {
		require.NoError(t, disk.Remove("/state/stream-/"+fileName(n, recordSuffix)))
	}
	require.Equal(t, "5:x", latestOn(t, noLock{disk}, open))
}
