// Package shards divides work among processes. The work of a group is cut into shards,
// and each shard has at most one owner, by a key on a lease in etcd. An Ownership carries
// an etcdkv.Fence, which every write of its owner must carry: the lease alone does not stop a
// former owner that has not noticed the loss.
//
//	member/<kind>/<holder>   a process that takes part, on its lease
//	own/<shard>              the owner of a shard, on a lease
//
// Processes of several versions may run together. Each announces the level of stored data that it knows, and
// all write what the lowest of them reads, see Level.
//
//	member/process/<holder>  the Program of a process, with the settings that must be equal in all (see Settings), on its lease
//	member/level             the level in force; it stays
//
// Processes compare their clocks, see Clocks.
//
//	clock/<holder>           the time of a process, on its lease
package shards

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Group is a number of processes that share work. Each shard belongs to the live member
// whose hash with the shard is highest (rendezvous hashing). So all members come to the
// same answer, and when a member comes or goes only its own shards move.
type Group struct {
	Kind   string // of work, such as "rsync"; shards are named after it
	Shards int    // in all; the same number in every process
}

// Member is a process as others see it.
type Member struct {
	Holder string        // its name, see Own
	TTL    time.Duration // of its lease, see Own: a process that dies is replaced after this time
}

// Of returns the shard of the work that key names.
func (g Group) Of(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(g.Shards))
}

// Shard names a shard as it is owned: "rsync-03".
func (g Group) Shard(n int) string { return fmt.Sprintf("%s-%02d", g.Kind, n) }

// winner returns the member that owns a shard.
func winner(members []string, shard string) (best string) {
	highest := uint64(0)
	for _, m := range members {
		if s := score(m, shard); best == "" || s > highest {
			best, highest = m, s
		}
	}
	return best
}

func score(member, shard string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + shard))
	return binary.BigEndian.Uint64(sum[:])
}

// Owners returns the holders of the shards of a group, by number. A shard without an owner is missing.
func Owners(ctx context.Context, kv *etcdkv.Client, g Group) (map[int]string, error) {
	out := map[int]string{}
	for one, err := range kv.List(ctx, etcdkv.Scan{Prefix: kv.Key("own", g.Kind+"-")}) {
		if err != nil {
			return nil, err
		}
		for n := range g.Shards {
			if string(one.Key) == kv.Key("own", g.Shard(n)) {
				out[n] = string(one.Value)
			}
		}
	}
	return out, nil
}
