// Package cache holds the Benthos caches `pebble`, `checkpoint_file` and `checkpoint_memory`, and on each of them the
// state store that a checkpointed stream keeps its records in. In come cache configs and, from sources, the label of a
// cache; out go service.Cache for processors and checkpoint.Store for the coordinator, both of which share one locked
// directory per path in a process. It is an edge: it imports Benthos, Pebble and the types of internal/checkpoint, and
// only plugins and the binary import it.
//
// # Who owns what
//
// A registry knows every directory of the process as a place. A cache has a lease on its place, taken at first use,
// since Benthos builds caches that it never closes; a state store has one of its own, since at a reload Benthos closes
// caches before the streams that use them. The last lease that is returned closes the database. The lock on
// the directory goes with it, unless a state store was opened there: that lock is kept until the process ends, because
// a client of a stopped stream may outlive its caches. Within a place each stream has one seat, which lets one store
// at a time write, one call after the other.
//
// # Keys in a Pebble database
//
// Store format 1. A change of this table is a new store format.
//
//	\x00format                                the store format, in decimal
//	\x00store_id                              a UUID, made once
//	\x00ckpt/<stream>/<number, 8 bytes>       a record of a stream; see escape for <stream>
//	\x00issued/<stream>                       the highest number that stream ever put, 8 bytes
//	\x00cache/                                kept free for the marks of aligned caches
//	\x01<prefix>\x00<key>                     an entry of a cache: a byte that tells its shape, its expiry, its value
//	\x02<expiry, 8 bytes><entry's key>        one for each entry that expires, in the order in which they do
//
// Numbers and times are big-endian, times in milliseconds since 1970. A prefix holds no \x00, so no two caches with
// different prefixes meet, and the entries of one are a range.
//
// # Files of ours
//
//	stream-<stream>.newest                    the witness of the highest number that was durable, in both kinds of store
//
// and in a checkpoint_file store
//
//	FORMAT                                    the store format and the store's UUID
//	LOCK                                      locked by the process that uses the directory
//	stream-<stream>/<number>.record           a record; numbers have 20 digits
//	stream-<stream>/<number>.deleted          all records up to this number are deleted
//	stream-<stream>/<name>.tmp                a write that was not finished; removed when the stream is next opened
package cache
