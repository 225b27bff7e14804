package v2

import "time"

// Revision is one version of a deployment, as GET …/revisions lists them: newest first.
// It is an addition to upstream's API.
type Revision struct {
	Number   int64            `json:"revision"`
	Instance string           `json:"instance"` // upstream's context id
	Kind     string           `json:"kind"`     // "instantiate", "update", "rollback" or "migrate"
	From     int64            `json:"from,omitempty"`
	Author   string           `json:"author,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Time     time.Time        `json:"time"`
	Current  bool             `json:"current,omitempty"` // it is the desired one
	Kept     bool             `json:"kept"`              // its content still exists: a rollback can bring it back
	Apps     []RevisionApp    `json:"apps,omitempty"`
	Commits  []RevisionCommit `json:"commits,omitempty"` // the newest hundred, oldest first
}

// RevisionApp is one app within a revision.
type RevisionApp struct {
	Name     string   `json:"name"`
	Clusters int      `json:"clusters"`          // on which it is placed
	Bundles  []string `json:"bundles,omitempty"` // digests of its content, one a class
	Failed   bool     `json:"failed,omitempty"`
}

// RevisionCommit is a Git commit that carried the revision to clusters, or an artifact or
// a folder that was published for one cluster.
type RevisionCommit struct {
	Repository string     `json:"repository"`        // URL, without credentials
	Branch     string     `json:"branch"`            // empty for an artifact or a folder
	Commit     string     `json:"commit"`            // or a digest, as "sha256:…": of the artifact in a registry, or of a folder in a bucket
	Clusters   int        `json:"clusters"`          // number of clusters
	Cluster    ClusterKey `json:"cluster,omitempty"` // for an artifact or a folder
}

// RevisionsAnswer is the answer to GET …/revisions.
type RevisionsAnswer struct {
	StatusSubject
	Revisions []Revision `json:"revisions"`
	Continue  string     `json:"continue,omitempty"` // token of the next page, with ?limit=
}

// PlacementAnswer is where the current documents of a group place its apps.
type PlacementAnswer struct {
	StatusSubject
	Placements []PlacementView `json:"placements"`         // by app: chosen clusters, then others
	Continue   string          `json:"continue,omitempty"` // token of the next page
}
