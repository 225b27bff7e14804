package statusview

import (
	"encoding/json"
	"strconv"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// JSON encodes the answer. It writes clusters and their own objects without reflection,
// because there are thousands; a test compares the result with package json's.
func (a Answer) JSON() ([]byte, error) {
	switch a.list {
	case "apps":
		return json.Marshal(a.listApps())
	case "clusters":
		return json.Marshal(a.listClusters())
	case "resources":
		return json.Marshal(a.listResources())
	}
	w := &jsonWriter{}
	for _, app := range a.apps {
		w.expect(app.clusters)
	}
	open(w, a.status)
	w.members("apps", len(a.apps), func(i int) { w.app(a.apps[i]) })
	w.members("clusters", len(a.clusters), func(i int) { w.cluster(&a.clusters[i]) })
	if a.cluster != nil {
		w.name("cluster")
		w.cluster(a.cluster)
	}
	w.raw("}")
	return w.text, w.err
}

// jsonWriter writes JSON.
type jsonWriter struct {
	text []byte
	size int // estimated size of what follows
	err  error
}

// expect adds the estimated size of clusters.
func (w *jsonWriter) expect(clusters []clusterPart) {
	const cluster, extra = 400, 200
	for _, c := range clusters {
		w.size += cluster + extra*len(c.extras)
		if c.objects != nil {
			w.size += len(w.list(c.objects))
		}
	}
}

// open writes v without its closing brace; v must have a member.
func open[T any](w *jsonWriter, v T) {
	text, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	if w.text == nil {
		w.text = make([]byte, 0, w.size+len(text)+1024)
	}
	w.text = append(w.text, text[:len(text)-1]...)
}

func (w *jsonWriter) raw(s string) { w.text = append(w.text, s...) }

// members writes a list of n values, unless it is empty.
func (w *jsonWriter) members(name string, n int, each func(i int)) {
	if n == 0 {
		return
	}
	w.raw(`,"` + name + `":[`)
	for i := range n {
		if i > 0 {
			w.raw(",")
		}
		each(i)
	}
	w.raw("]")
}

func (w *jsonWriter) app(a appPart) {
	open(w, a.status)
	w.members("clusters", len(a.clusters), func(i int) { w.cluster(&a.clusters[i]) })
	w.raw("}")
}

func (w *jsonWriter) cluster(part *clusterPart) {
	c := &part.status
	w.raw(`{"clusterProvider":`)
	w.quote(c.Provider)
	w.raw(`,"cluster":`)
	w.quote(c.Cluster)
	w.string("connectivity", c.Connectivity)
	w.string("readyStatus", c.ReadyStatus)
	w.string("phase", c.Phase)
	w.number("revision", c.Revision)
	w.string("commit", c.Commit)
	w.string("error", c.Error)
	w.time("since", c.Since)
	w.members("findings", len(c.Findings), func(i int) { w.quote(c.Findings[i]) })
	w.string("blocked", c.Blocked)
	w.number("step", int64(c.Step))
	w.number("attempts", int64(c.Attempts))
	w.time("nextAttempt", c.NextAttempt)
	w.time("lastReport", c.LastReport)
	w.flag("stale", c.Stale)
	w.string("reconciled", c.Reconciled)
	w.edit(c.ExternalEdit)
	w.resources(part)
	w.raw("}")
}

// edit writes an external edit.
func (w *jsonWriter) edit(e *v2.ExternalEdit) {
	if e == nil {
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		return // cannot happen: all members can be encoded
	}
	w.raw(`,"foreignEdit":`)
	w.text = append(w.text, text...)
}

// resources writes the rendered objects, then the cluster's other ones.
func (w *jsonWriter) resources(part *clusterPart) {
	var shared []byte
	if part.objects != nil {
		shared = w.list(part.objects)
	}
	if len(shared)+len(part.extras) == 0 {
		return
	}
	w.raw(`,"resources":[`)
	w.text = append(w.text, shared...)
	for i := range part.extras {
		if i > 0 || len(shared) > 0 {
			w.raw(",")
		}
		w.resource(&part.extras[i])
	}
	w.raw("]")
}

// list returns a block as JSON without brackets.
func (w *jsonWriter) list(b *objectBlock) []byte {
	if b.text == nil && len(b.list) > 0 {
		text, err := json.Marshal(b.list)
		if err != nil {
			w.err = err
			return nil
		}
		b.text = text[1 : len(text)-1]
	}
	return b.text
}

func (w *jsonWriter) resource(r *v2.ResourceStatus) {
	w.raw(`{"GVK":{"Group":`)
	w.quote(r.GVK.Group)
	w.raw(`,"Version":`)
	w.quote(r.GVK.Version)
	w.raw(`,"Kind":`)
	w.quote(r.GVK.Kind)
	w.raw(`},"name":`)
	w.quote(r.Name)
	if len(r.Detail) > 0 {
		w.raw(`,"detail":`)
		w.text = append(w.text, r.Detail...)
	}
	w.string("deployedStatus", r.DeployedStatus)
	w.string("readyStatus", r.ReadyStatus)
	w.string("rsyncStatus", r.RsyncStatus)
	w.string("clusterStatus", r.ClusterStatus)
	w.string("namespace", r.Namespace)
	w.string("reason", r.Reason)
	w.flag("extra", r.Extra)
	w.raw("}")
}

// The methods below omit empty members.

func (w *jsonWriter) name(s string) { w.raw(`,"` + s + `":`) }

func (w *jsonWriter) string(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

func (w *jsonWriter) number(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.text = strconv.AppendInt(w.text, n, 10)
	}
}

func (w *jsonWriter) flag(name string, set bool) {
	if set {
		w.name(name)
		w.raw("true")
	}
}

func (w *jsonWriter) time(name string, t *time.Time) {
	if t == nil {
		return
	}
	w.name(name)
	w.text = append(w.text, '"')
	w.text = t.AppendFormat(w.text, time.RFC3339Nano)
	w.text = append(w.text, '"')
}

// quote writes a string. Strings that need escapes are rare; package json writes them.
func (w *jsonWriter) quote(s string) {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				w.err = err
			}
			w.text = append(w.text, text...)
			return
		}
	}
	w.text = append(w.text, '"')
	w.text = append(w.text, s...)
	w.text = append(w.text, '"')
}
