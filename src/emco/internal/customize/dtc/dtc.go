// Package dtc is the traffic controller: it makes the objects of traffic group intents, which
// define who may reach a service, and from where. policy.go makes NetworkPolicies, discovery.go
// Services for clients on other clusters, istio.go the objects of Istio's mesh, and sdewan.go those
// of SD-EWAN.
package dtc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Name is the name of the controller in group intents.
const Name = "dtc"

// The parts of the controller, with the names of upstream's controllers. If some of them are
// registered below dtc-controllers, only these make objects.
const (
	partPolicies  = "nps" // NetworkPolicies
	partDiscovery = "sds" // service discovery
	partIstio     = "its" // Istio
	partSDEWAN    = "swc" // SD-EWAN
)

// Limits of one traffic group intent.
const (
	maxServers = 500
	maxClients = 2000 // of all servers together
	maxPoints  = 5000 // access points of all clients together
)

// New returns the controller of the documents in a store.
func New(db *store.DB) customize.Controller { return controller{db} }

type controller struct{ db *store.DB }

// Customize implements customize.Controller.
func (t controller) Customize(ctx context.Context, d customize.Deployment) (customize.Edits, error) {
	key := store.Key(d.Group + "/traffic-group-intents/" + d.Intent)
	if err := d.CheckIntent(ctx, t.db, "TrafficGroupIntent", "traffic-group-intents"); err != nil {
		return customize.Edits{}, err
	}
	parts, err := t.parts(ctx)
	if err != nil {
		return customize.Edits{}, err
	}
	servers, err := t.servers(ctx, d, key)
	if err != nil {
		return customize.Edits{}, err
	}
	out := editList{deployment: d}
	for _, s := range servers {
		if len(s.app.Clusters) == 0 {
			continue // the app is not deployed
		}
		if len(s.clients) == 0 && !s.Spec.ExternalSupport {
			out.find(s.app, s.origin+": has no client, so every pod may reach it as before")
		}
		for _, part := range parts {
			if err := part(&out, s); err != nil {
				return customize.Edits{}, fmt.Errorf("%s: %w", s.origin, err)
			}
		}
	}
	return out.Edits, nil
}

// parts returns what makes the objects of a server.
func (t controller) parts(ctx context.Context) ([]func(*editList, server) error, error) {
	all := []struct {
		name string
		add  func(*editList, server) error
	}{
		{partPolicies, (*editList).addPolicy},
		{partDiscovery, (*editList).addDiscovery},
		{partIstio, (*editList).addIstio},
		{partSDEWAN, (*editList).addSDEWAN},
	}
	var every, registered []func(*editList, server) error
	for _, p := range all {
		_, err := t.db.Get(ctx, store.Key("dtc-controllers/"+p.name))
		if err != nil && !errs.Is(err, errs.NotFound) {
			return nil, err
		}
		if every = append(every, p.add); err == nil {
			registered = append(registered, p.add)
		}
	}
	if len(registered) > 0 {
		return registered, nil
	}
	return every, nil
}

// server is an inbound server with its clients. Its app has no clusters if it is not deployed.
type server struct {
	v2.InboundServer
	origin  string
	name    string // of its objects
	host    string // within clusters
	app     customize.App
	clients []client
}

// client is a client of a server. Its app has no clusters if it is not deployed.
type client struct {
	v2.InboundClient
	app    customize.App
	points []v2.AccessPoint
}

// servers reads the inbound servers of a traffic group intent.
func (t controller) servers(ctx context.Context, d customize.Deployment, group store.Key) (out []server, err error) {
	clients, points := 0, 0
	for item, err := range store.All[v2.InboundServer](ctx, t.db, group+"/inbound-intents", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		s := server{origin: d.Origin(item.Doc.Key)}
		if s.InboundServer, err = t.reveal(ctx, item); err != nil {
			return nil, err
		}
		s.name, s.app = customize.ObjectName(string(item.Doc.Key)), d.App(s.Spec.App)
		s.host = fmt.Sprintf("%s.%s.svc.cluster.local", s.Spec.ServiceName, d.Namespace)
		for c, err := range store.All[v2.InboundClient](ctx, t.db, item.Doc.Key+"/clients", store.Query{Depth: 1}) {
			if err != nil {
				return nil, err
			}
			next := client{InboundClient: c.Value, app: d.App(c.Value.Spec.App)}
			for p, err := range store.All[v2.AccessPoint](ctx, t.db, c.Doc.Key+"/access-points", store.Query{Depth: 1}) {
				if err != nil {
					return nil, err
				}
				next.points = append(next.points, p.Value)
			}
			s.clients = append(s.clients, next)
			if clients, points = clients+1, points+len(next.points); clients > maxClients || points > maxPoints {
				return nil, errs.New(errs.Invalid, fmt.Sprintf("traffic group intent %s has more than %d clients or %d access points; divide it", d.Intent, maxClients, maxPoints))
			}
		}
		if out = append(out, s); len(out) > maxServers {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("traffic group intent %s has more than %d inbound servers; divide it", d.Intent, maxServers))
		}
	}
	return out, nil
}

// reveal returns a server with its private key.
func (t controller) reveal(ctx context.Context, item store.Item[v2.InboundServer]) (v2.InboundServer, error) {
	plain, err := t.db.Reveal(ctx, item.Doc)
	if err != nil || len(plain) == 0 {
		return item.Value, err
	}
	return v2.Decode[v2.InboundServer](plain, v2.Lenient)
}

// remote is a cluster that has clients of a server but not the server.
type remote struct {
	cluster v2.ClusterKey
	app     customize.App // the first client on the cluster; it gets the objects
}

// remotes returns the clusters that have clients but not the server, by apps of the clients.
func (s server) remotes() (out []remote) {
	seen := map[v2.ClusterKey]bool{}
	for _, c := range s.clients {
		for _, cluster := range c.app.Clusters {
			if !s.app.Has(cluster) && !seen[cluster] {
				seen[cluster] = true
				out = append(out, remote{cluster, c.app})
			}
		}
	}
	return out
}

// editList collects the edits of an intent.
type editList struct {
	customize.Edits
	deployment customize.Deployment
}

func (l *editList) find(app customize.App, text string) {
	l.Findings = append(l.Findings, customize.Finding{App: app.Name, Text: text})
}

// add adds an object on clusters of an app. Clusters with equal objects get one edit.
func (l *editList) add(app customize.App, clusters []v2.ClusterKey, s server, object func(v2.ClusterKey) (kubeObject, error)) error {
	var edits []customize.Edit
	index := map[string]int{} // of edits, by their objects
	for _, c := range clusters {
		made, err := object(c)
		if err != nil {
			return err
		}
		if made == nil {
			continue
		}
		text, err := json.Marshal(made)
		if err != nil {
			return errs.E(errs.Internal, "write", s.name, err)
		}
		i, known := index[string(text)]
		if !known {
			i = len(edits)
			index[string(text)] = i
			edits = append(edits, customize.Edit{App: app.Name, Origin: s.origin, Object: text})
		}
		edits[i].Clusters = append(edits[i].Clusters, c)
	}
	for _, e := range edits {
		if slices.Sort(e.Clusters); len(e.Clusters) == len(app.Clusters) {
			e.Clusters = nil // all
		}
		l.Edits.Edits = append(l.Edits.Edits, e)
	}
	return nil
}

// addEverywhere adds an object on all clusters of a server.
func (l *editList) addEverywhere(s server, object kubeObject) error {
	return l.add(s.app, s.app.Clusters, s, func(v2.ClusterKey) (kubeObject, error) { return object, nil })
}

// addRemote adds an object on all clusters that have clients but not the server.
func (l *editList) addRemote(s server, object kubeObject) error {
	byApp := map[string][]v2.ClusterKey{}
	var apps []customize.App
	for _, r := range s.remotes() {
		if byApp[r.app.Name] == nil {
			apps = append(apps, r.app)
		}
		byApp[r.app.Name] = append(byApp[r.app.Name], r.cluster)
	}
	for _, app := range apps {
		if err := l.add(app, byApp[app.Name], s, func(v2.ClusterKey) (kubeObject, error) { return object, nil }); err != nil {
			return err
		}
	}
	return nil
}

// fact returns a key-value pair of a cluster, or what stands for it if there is none.
func (l *editList) fact(cluster v2.ClusterKey, key, otherwise string) (string, error) {
	pairs, err := l.deployment.KeyValues(cluster)
	if err != nil {
		return "", err
	}
	if value := pairs[key]; value != "" {
		return value, nil
	}
	return otherwise, nil
}

// port returns a key-value pair of a cluster that is a port.
func (l *editList) port(cluster v2.ClusterKey, key string, otherwise int) (int, error) {
	text, err := l.fact(cluster, key, strconv.Itoa(otherwise))
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, errs.New(errs.Invalid, fmt.Sprintf("the key-value pair %s of cluster %s is %q, which is no port", key, cluster, text))
	}
	return port, nil
}

// kubeObject is an object of Kubernetes, which has a JSON form.
type kubeObject interface{ kubeObject() }

// object is an object with a spec.
type object[S any] struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       S        `json:"spec"`
}

func (*object[S]) kubeObject() {}

// metadata names an object.
type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}
