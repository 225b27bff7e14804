package capacity_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
)

// API servers are not trusted. Kubernetes' parser of quantities would work for hours on some that are short.
func TestCostlyQuantitiesAreNotRead(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{"1e-2147483647", " 1e2147483647", "\u00a01E+999999999 "} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/api/v1/nodes" {
				fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","annotations":{"id":"9e12345"}},
					"status":{"allocatable":{"cpu":"4","memory":"`+amount+`"},"conditions":[{"type":"Ready","status":"True"}]}}]}`)
				return
			}
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},
				"spec":{"nodeName":"a","containers":[{"name":"c","resources":{"requests":{"cpu":"`+amount+`"}}}],"overhead":{"cpu":"1"}}}]}`)
		}))
		defer server.Close()
		client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		s, err := capacity.Read(t.Context(), client)
		if got, want := show(s.Capacity()), "1 nodes: 1x cpu 3/4; 0 cut"; err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", amount, got, err, want)
		}
	}
}
