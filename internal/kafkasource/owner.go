package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

const (
	// minFresh is how old a mark may be, at least, to tell of a job that is running: one with checkpoints commits after each
	// of them, so a longer interval of ours, which is taken for the other's too, allows for more.
	minFresh = time.Minute
	// minSecondLook is how long after the first look a mark is looked at again that does not tell whose it is.
	minSecondLook = 3 * time.Second
)

// DuplicatedGroupError says that another application uses the source's consumer group.
type DuplicatedGroupError struct {
	Group string
	// Who tells who uses it, and since when as far as that is known. WayOut is what else can be done about it.
	Who, WayOut string
}

func (e *DuplicatedGroupError) Error() string {
	return fmt.Sprintf("check_duplicated_group_id: group %q is in use: %s; stop that, or give this job a group_id of its own%s",
		e.Group, e.Who, e.WayOut)
}

// CheckGroup refuses a consumer group that another application uses: one that has members, to which the broker takes no
// commits of ours either, or one in which another job of Tidegate's, which is no member, has left a fresh owner mark on a
// partition that this source reads. It does nothing unless the config asks for it.
//
// What it cannot see: a job without checkpoints that has nothing to read commits nothing, and its mark stands still like
// that of a job which has ended.
func (r *Reader) CheckGroup(ctx context.Context) error {
	if !r.cfg.CheckGroup || r.cfg.Group == "" {
		return nil
	}
	if err := r.checkMembers(ctx); err != nil {
		return err
	}
	first, err := r.marks(ctx)
	if err != nil {
		return r.unchecked(err)
	}
	now, wait := time.Now(), false
	for _, m := range first {
		switch {
		case r.isOurs(m):
			// our own: nobody else has the state store
		case now.Sub(m.at) > r.fresh():
		case m.store != noStore:
			return r.ownedBy(m)
		default:
			wait = true // it may be ours, of before a restart
		}
	}
	if !wait {
		return nil
	}
	if err := sleep(ctx, r.secondLook()); err != nil {
		return err
	}
	second, err := r.marks(ctx)
	if err != nil {
		return r.unchecked(err)
	}
	for p, m := range second {
		if was, ok := first[p]; m.store == noStore && (!ok || m.at != was.at) {
			return r.ownedBy(m)
		}
	}
	return nil
}

func (r *Reader) fresh() time.Duration { return max(minFresh, 2*r.cfg.CheckpointInterval) }

// secondLook takes our interval for the other's too, which is another copy of this job as a rule.
func (r *Reader) secondLook() time.Duration {
	if r.cfg.SecondLook > 0 {
		return r.cfg.SecondLook
	}
	return max(minSecondLook, r.cfg.AutoCommit*3/2)
}

func (r *Reader) ownedBy(m ownersMark) error {
	who := "another job of Tidegate's"
	if m.store != noStore {
		who += ", with the state store " + m.store
	}
	if m.stream != noStore {
		who += fmt.Sprintf(", stream %q", m.stream)
	}
	ago := max(0, time.Since(m.at)).Round(time.Second)
	e := &DuplicatedGroupError{Group: r.cfg.Group, Who: fmt.Sprintf("%s, has committed offset %d of %v, %v ago at %s", who, m.offset, m.partition,
		ago, m.at.UTC().Format(time.RFC3339))}
	e.WayOut = ", or where that job has ended, start again once it has committed nothing for " + r.fresh().String()
	if m.store == noStore {
		e.WayOut = "" // it was seen to be running
	}
	return e
}

// ownersMark is the owner mark of one partition's offset, with a dash for what it leaves open.
type ownersMark struct {
	partition     splits.Partition
	offset        int64
	store, stream string
	at            time.Time
	// text is the mark as it was written.
	text string
}

// parseMark reads the metadata of a commit, if it is an owner mark.
func parseMark(metadata string) (m ownersMark, ok bool) {
	rest, ours := strings.CutPrefix(metadata, ownerMark+" ")
	store, rest, _ := strings.Cut(rest, " ")
	last := strings.LastIndexByte(rest, ' ') // a stream's id may have blanks in it
	if !ours || last < 0 {
		return m, false
	}
	ms, err := strconv.ParseInt(rest[last+1:], 10, 64)
	if err != nil {
		return m, false
	}
	return ownersMark{store: store, stream: rest[:last], at: time.UnixMilli(ms), text: metadata}, true
}

// marks are the owner marks of the partitions that this source reads: those of other shares are other processes'.
func (r *Reader) marks(ctx context.Context) (map[splits.Partition]ownersMark, error) {
	out := make(map[splits.Partition]ownersMark)
	err := retry(ctx, r.admin, r.log, fmt.Sprintf("reading the offsets of group %q", r.cfg.Group), func(ctx context.Context) error {
		resp, err := kadm.NewClient(r.admin).FetchOffsets(ctx, r.cfg.Group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil // a group that was never used is nobody's
		}
		if err != nil {
			return err
		}
		clear(out)
		resp.Each(func(o kadm.OffsetResponse) {
			p := splits.Partition{Topic: o.Topic, Partition: o.Partition}
			if m, ok := parseMark(o.Metadata); ok && o.Err == nil && r.cfg.Subscription.Covers(p) && r.cfg.Share.Owns(p) {
				m.partition, m.offset = p, o.At
				out[p] = m
			}
		})
		return nil
	})
	return out, err
}

// maxMembers bounds the members that an error lists.
const maxMembers = 5

func (r *Reader) checkMembers(ctx context.Context) error {
	var members []string
	err := retry(ctx, r.admin, r.log, fmt.Sprintf("describing group %q", r.cfg.Group), func(ctx context.Context) (err error) {
		members, err = r.cluster().members(ctx, r.cfg.Group)
		return err
	})
	if err != nil {
		return r.unchecked(err)
	}
	if len(members) == 0 {
		return nil
	}
	n := len(members)
	if n > maxMembers {
		members = append(members[:maxMembers], fmt.Sprintf("and %d more", n-maxMembers))
	}
	return &DuplicatedGroupError{
		Group: r.cfg.Group, Who: fmt.Sprintf("it has %d active members (%s), and as long as it has, the broker takes no offsets that this "+
			"job commits", n, strings.Join(members, "; ")),
		WayOut: ", or where they have ended without leaving, start again once their session timeout is over",
	}
}

// unchecked says how to start without a check that the cluster does not allow.
func (r *Reader) unchecked(err error) error {
	if kafkaclient.Classify(err) == kafkaclient.ClassAuthorisation {
		return fmt.Errorf("check_duplicated_group_id: %w; grant Describe on group %q, or set check_duplicated_group_id: false", err, r.cfg.Group)
	}
	return err
}

// members are those of a group in words, whichever of Kafka's two protocols the group has (KIP-848).
func (c cluster) members(ctx context.Context, group string) (members []string, err error) {
	word := func(client, host string) {
		members = append(members, fmt.Sprintf("client %q at %s", client, strings.TrimPrefix(host, "/")))
	}
	admin := kadm.NewClient(c.client)
	classic, err := admin.DescribeGroups(ctx, group)
	if d, ok := classic[group]; ok && err == nil {
		err = d.Err
	}
	if err == nil {
		for _, m := range classic[group].Members {
			word(m.ClientID, m.ClientHost)
		}
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) || len(members) > 0 {
		return members, err
	}
	newer, err := admin.DescribeConsumerGroups(ctx, group)
	if d, ok := newer[group]; ok && err == nil {
		err = d.Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.UnsupportedVersion) {
		return nil, nil
	}
	for _, m := range newer[group].Members {
		word(m.ClientID, m.ClientHost)
	}
	return members, err
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
