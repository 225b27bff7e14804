package appcontext

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// ownList is from how many bytes on a list of clusters is content of its own.
const ownList = 512

// placementValue is a placementChunk as etcd holds it. The list of clusters changes rarely, so it is
// content, which revisions share: the value of a revision has what its clusters hold alone. A short list
// is in the value itself, as every list was before.
type placementValue struct {
	Sets     []map[string]Digest `json:"sets"`
	Clusters json.RawMessage     `json:"clusters"`        // the list, or the digest of the content that is the list
	Holds    []int               `json:"holds,omitempty"` // with a list: see placementChunk
	Runs     []holdRun           `json:"runs,omitempty"`  // with a digest: Holds, in runs
}

// holdRun is clusters in a row that hold the same set, as [set, number of clusters].
type holdRun [2]int

// value returns the chunk as etcd holds it, and the content that the value refers to, if any.
func (c placementChunk) value() (v placementValue, refers Digest, content []byte, err error) {
	v.Sets = c.Sets
	list, err := json.Marshal(c.Clusters)
	if err != nil {
		return v, "", nil, err
	}
	if len(list) < ownList {
		v.Clusters, v.Holds = list, c.Holds
		return v, "", nil, nil
	}
	refers = manifest.DigestOf(list)
	v.Clusters, err = json.Marshal(refers)
	for _, set := range c.Holds {
		if last := len(v.Runs) - 1; last >= 0 && v.Runs[last][0] == set {
			v.Runs[last][1]++
		} else {
			v.Runs = append(v.Runs, holdRun{set, 1})
		}
	}
	return v, refers, list, err
}

// refers returns the content that the value refers to; empty if it has the list itself.
func (v placementValue) refers() (d Digest, err error) {
	if len(v.Clusters) > 0 && v.Clusters[0] == '"' {
		err = json.Unmarshal(v.Clusters, &d)
	}
	return d, err
}

// chunk returns the chunk of a value that etcd holds. get returns content.
func (v placementValue) chunk(ctx context.Context, get func(context.Context, Digest) ([]byte, error)) (placementChunk, error) {
	c := placementChunk{Sets: v.Sets, Holds: v.Holds}
	list := []byte(v.Clusters)
	refers, err := v.refers()
	if err == nil && refers != "" {
		if list, err = get(ctx, refers); errs.Is(err, errs.NotFound) {
			return c, etcdkv.Corrupt("placements", fmt.Errorf("the list of clusters %s is missing", refers))
		}
		if err != nil {
			return c, err
		}
		for _, r := range v.Runs {
			if r[1] < 0 || len(c.Holds)+r[1] > maxClusters {
				return c, etcdkv.Corrupt("placements", fmt.Errorf("%d clusters in a row hold a set", r[1]))
			}
			for range r[1] {
				c.Holds = append(c.Holds, r[0])
			}
		}
	}
	if err == nil && len(list) > 0 {
		err = json.Unmarshal(list, &c.Clusters)
	}
	if err != nil {
		return c, etcdkv.Corrupt("placements", err)
	}
	return c, c.check()
}
