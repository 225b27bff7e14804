package clm_test

import (
	"strings"
	"testing"
)

func TestAKubeconfigIsReplacedInPlace(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const c1 = "/v2/cluster-providers/edge/clusters/c1"
	stored := func() string {
		t.Helper()
		doc, err := s.DB.Get(t.Context(), "cluster-providers/edge/clusters/c1")
		if err != nil {
			t.Fatal(err)
		}
		plain, err := s.DB.Reveal(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		return string([]byte(plain))
	}
	s.Run(t,
		step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201},
		step{Do: "PUT " + c1, Body: named("c1"), File: direct, Status: 201},
		step{Do: "PUT " + c1, Body: named("c1"), Status: 422, Text: "multipart"},
	)
	first := s.Run(t, step{Do: "GET " + c1, Status: 200}).Header.Get("ETag")
	shown := s.Run(t, step{Do: "GET " + c1, Header: "Accept: application/octet-stream", Status: 200}).Body

	// What GET shows changes nothing, and gives no credential to another server.
	again := s.Run(t, step{Do: "PUT " + c1, Body: named("c1"), File: shown, Status: 200})
	if again.Header.Get("ETag") != first || stored() != direct {
		t.Error("a PUT of what GET shows has changed the registration")
	}
	elsewhere := strings.Replace(shown, "127.0.0.1", "thief.example", 1)
	s.Run(t, step{Do: "PUT " + c1, Body: named("c1"), File: elsewhere, Status: 400, Text: `user "me": a credential is ***`})
	s.Run(t, step{Do: "PUT " + c1, Body: named("c1"), File: kubeconfig("{exec: {command: sh}}"), Status: 400, Text: "exec is not allowed"})
	if stored() != direct {
		t.Error("a refused PUT has changed the kubeconfig")
	}

	next := strings.Replace(direct, planted, planted+"-next", 1)
	s.Run(t,
		step{Do: "PUT " + c1 + "?dryRun=true", Body: named("c1"), File: next, Status: 200},
		step{Do: "PUT " + c1, Body: named("c1"), File: next, Header: `If-Match: "other"`, Status: 412},
	)
	if stored() != direct {
		t.Error("a dry run or a stale PUT has changed the kubeconfig")
	}
	a := s.Run(t, step{Do: "PUT " + c1, Body: `{"metadata":{"name":"c1","description":"rotated"}}`, File: next, Header: "If-Match: " + first, Status: 200, Text: "rotated"})
	if a.Header.Get("ETag") == first || stored() != next {
		t.Error("the new kubeconfig is not stored")
	}
	if strings.Contains(a.Body+s.Log.String(), planted) {
		t.Error("the answer or the log shows the token")
	}
}

// How a cluster gets its state stays, also where the document leaves it open.
func TestAClusterKeepsItsPlaceInGit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const p = "/v2/cluster-providers/edge"
	sharded := strings.Replace(repo, `{"branch":"main"}`, `{"branch":"main"},{"refMode":"shard"}`, 1)
	s.Run(t,
		step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201},
		step{Do: "POST " + p + "/cluster-sync-objects", Body: sharded, Status: 201},
		step{Do: "POST " + p + "/cluster-sync-objects", Body: strings.Replace(repo, `"name":"repo"`, `"name":"other"`, 1), Status: 201},
		step{Do: "POST " + p + "/clusters", Body: flux, Status: 201},
		step{Do: "POST " + p + "/clusters", Body: named("c1"), File: direct, Status: 201},
	)
	first := s.Run(t, step{Do: "GET " + p + "/clusters/c2", Status: 200}).Body
	if !strings.Contains(first, "gitOpsShard") {
		t.Fatalf("the cluster has no shard: %s", first)
	}
	same := s.Run(t, step{Do: "PUT " + p + "/clusters/c2", Body: flux, Status: 200}).Body
	if same != first {
		t.Errorf("a second registration answers %s after %s", same, first)
	}
	s.Run(t,
		step{Do: "PUT " + p + "/clusters/c2", Body: strings.Replace(flux, `"c2"`, `"c2","description":"back room"`, 1), Status: 200, Text: "back room"},
		step{Do: "PUT " + p + "/clusters/c2", Body: strings.Replace(flux, "FluxV2", "argocd", 1), Status: 409, Text: "POST …/clusters/c2/move"},
		step{Do: "PUT " + p + "/clusters/c2", Body: strings.ReplaceAll(flux, `"repo"`, `"other"`), Status: 409, Text: "delete the cluster and register it again"},
		step{Do: "PUT " + p + "/clusters/c2", Body: named("c2"), File: direct, Status: 409, Text: "cannot change in place"},
		step{Do: "PUT " + p + "/clusters/c1", Body: strings.Replace(flux, `"c2"`, `"c1"`, 1), Status: 409, Text: "cannot change in place"},
	)
}
