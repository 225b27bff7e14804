package rsync

import (
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	retry = pair.Retry{First: time.Second, Longest: 5 * time.Minute}
	key   = appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "web"}
)

func digests(d ...appcontext.Digest) []appcontext.Digest { return d }

// job is a hook's object, in the content "1".
var job = appcontext.Ref{ID: manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "migrate"}, Digest: "d", Stamp: "1"}
