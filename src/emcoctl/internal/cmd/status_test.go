package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// A deployment on many clusters is counted by app; what is wrong is listed.
func TestF52StatusOfManyClusters(t *testing.T) {
	t.Parallel()
	var st v2.Status
	app := v2.AppStatus{Name: "web"}
	for i := range 40 {
		c := v2.ClusterStatus{Provider: "edge", Cluster: fmt.Sprintf("c%02d", i), Phase: "Applied"}
		c.Resources = []v2.ResourceStatus{{GVK: v2.GVK{Kind: "ConfigMap"}, Name: "cm", ReadyStatus: v2.Ready}}
		switch i {
		case 7:
			c.Phase, c.Error = "Failed", "no room"
		case 8:
			c.Resources[0].ReadyStatus = "Unknown"
		}
		app.Clusters = append(app.Clusters, c)
	}
	st.Apps = []v2.AppStatus{app}
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	const counted = "APP   CLUSTERS   READY   UNKNOWN   PHASES\nweb   40         38      1         Applied 39, Failed 1\n"
	for _, tt := range []struct {
		args         string
		want, absent string
		rows         int
	}{
		{"", counted, "edge+c00", 2},
		{"", "38 of 40 are as desired, 0 others are not listed", "", 2},
		{"--all", "edge+c39", "CLUSTERS", 40},
		{"--failed", "edge+c07", "edge+c00", 2},
		{"--phase failed", "no room", "edge+c08", 1},
		{"--cluster edge/c09", "edge+c09", "edge+c07", 1},
		{"--app cache", "no app on any cluster passes the filters", "edge+", 0},
	} {
		code, out, errs := run(t.Context(), map[string]string{"EMCO_URL": s.URL}, append([]string{"status", "p/a/v1/d"}, strings.Fields(tt.args)...)...)
		if code != 0 || !strings.Contains(out, tt.want) || tt.absent != "" && strings.Contains(out, tt.absent) || strings.Count(out, "edge+") != tt.rows {
			t.Errorf("status %s: exit code %d\n%s%s", tt.args, code, out, errs)
		}
	}
	if code, _, errs := run(t.Context(), map[string]string{"EMCO_URL": s.URL}, "status", "p/a/v1/d", "--cluster", "c9"); code != 2 || !strings.Contains(errs, "PROVIDER/CLUSTER") {
		t.Errorf("a cluster without a provider: exit code %d\n%s", code, errs)
	}
	run(t.Context(), map[string]string{"EMCO_URL": s.URL}, "status", "p/a/v1/d", "--cluster", "edge/c9", "--app", "web")
	if want := "status=ready&output=all&app=web&cluster=edge%2Bc9"; asked != want {
		t.Errorf("the server was asked for %s, want %s", asked, want)
	}
}

// Of a large deployment status reads counts and the worst clusters, not every object.
func TestF52StatusOfALargeDeployment(t *testing.T) {
	t.Parallel()
	const path = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch {
		case strings.HasSuffix(r.URL.Path, "/matrix"):
			fmt.Fprint(w, `{"total":1400,"apps":["cache","web"],"allApps":2,"revision":7,"counts":{"failed":1,"ready":2798},
				"items":[{"provider":"edge","cluster":"c7","cells":"rf","revision":[7,7],"why":"web: no room","commit":"0123456789abcdef"},{"provider":"edge","cluster":"c8","cells":"rr","revision":[7,7]}]}`)
		case strings.HasSuffix(r.URL.Path, "/deployments"):
			fmt.Fprintf(w, `{"total":2,"items":[{"path":"%sx"},{"path":"%s","state":"failed","lifecycle":"Instantiated","deployed":"InstantiateFailed","revision":7,"author":"ann","clusters":1400,"counts":{"failed":1,"ready":2798},"why":"web: no room"}]}`, path, path)
		default:
			fmt.Fprint(w, `{"name":"d"}`)
		}
	}))
	t.Cleanup(s.Close)
	env := map[string]string{"EMCO_URL": s.URL}
	code, out, errs := run(t.Context(), env, "status", "p/a/v1/d")
	for _, want := range []string{
		"state      Instantiated, revision 7\n", "ready      2798/2799 (failed 1, ready 2798)\n",
		"CLUSTER   APPS         SEEN   COMMIT         WHY\nedge+c7   web failed   -      0123456789ab   web: no room\n", "the worst 1 of 1400 clusters are listed",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d; %q is not in\n%s%s", code, want, out, errs)
		}
	}
	if len(asked) != 2 {
		t.Errorf("status asked for %v", asked)
	}
	for _, args := range [][]string{{"--all"}, {"--cluster", "edge/c7"}, {"--phase", "Failed"}, {"-o", "json"}} {
		asked = nil
		run(t.Context(), env, append([]string{"status", "p/a/v1/d"}, args...)...)
		if want := "/v2/" + path + "/status"; len(asked) != 1 || asked[0] != want {
			t.Errorf("status %v asked for %v, want %s", args, asked, want)
		}
	}
}

// What is to be known of an app on clusters is printed also while the clusters have not reported.
func TestF52StatusShowsFindingsOfClusters(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/status") {
			fmt.Fprint(w, `{}`)
			return
		}
		const cluster = `{"clusterProvider":"edge","cluster":"%s","phase":"Applied","findings":["rename one"],
			"resources":[{"GVK":{"Kind":"Deployment"},"name":"web","readyStatus":"Unknown","reason":"the cluster has not reported"}]}`
		fmt.Fprintf(w, `{"apps":[{"name":"web","clusters":[`+cluster+`,`+cluster+`]}]}`, "c1", "c2")
	}))
	t.Cleanup(s.Close)
	env := map[string]string{"EMCO_URL": s.URL}
	for _, args := range [][]string{{"status", "p/a/v1/d"}, {"describe", "deployment", "p/a/v1/d"}} {
		code, out, errs := run(t.Context(), env, args...)
		for _, want := range []string{"warning    app web on edge+c1 (and 1 more): rename one\n", "the cluster has not reported"} {
			if code != 0 || strings.Count(out, "rename one") != 1 || !strings.Contains(out, want) {
				t.Errorf("%v: exit code %d; %q is not in\n%s%s", args, code, want, out, errs)
			}
		}
	}
}
