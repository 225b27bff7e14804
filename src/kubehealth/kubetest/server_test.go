package kubetest

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// A client may watch again after a server has cut its connections and before it ends, which waits for all requests.
func TestWatchesThatBeginAtTheEndEnd(t *testing.T) {
	t.Parallel()
	s := start()
	defer s.http.Close()
	defer s.http.CloseClientConnections()
	close(s.ended)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/api/v1/configmaps?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the watch is answered with %d and ends with %v", res.StatusCode, err)
	}
}
