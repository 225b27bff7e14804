package syncobjects_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

func readOCI(kv map[string]string) (syncobjects.Settings, error) {
	return syncobjects.Read("oci", syncobjects.Object{Name: "o", KV: []map[string]string{kv}}, syncobjects.Object{}, syncobjects.Rules{})
}

func TestReadRegistry(t *testing.T) {
	t.Parallel()
	s, err := readOCI(map[string]string{"url": "oci://registry.example.org/fleet/edge/", "userName": "u", "gitToken": "t", "sourceName": "emco"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Repo.URL != "https://registry.example.org/fleet/edge" || !s.Published() || s.Name != "edge" || s.Options["sourceName"] != "emco" {
		t.Errorf("Read = %+v", s)
	}
	if s.Status.Repo.URL != "" {
		t.Errorf("reports are looked for in %s", s.Status.Repo.URL)
	}
	if at := s.At("edge+c1", syncobjects.Slot{Mode: syncobjects.RefShard, Shard: "s000", FanOut: true}); at.FanOut || at.Branch != s.Branch {
		t.Error("a cluster that is published has a slot on a branch")
	}
	if _, err := readOCI(map[string]string{"url": "http://127.0.0.1:5000/edge"}); err != nil {
		t.Errorf("a registry without a login: %v", err)
	}
	s, err = readOCI(map[string]string{
		"url": "oci://r.example.org/edge", "statusUrl": "https://git.example.org/status.git", "statusUserName": "u", "statusToken": "t",
	})
	if err != nil || s.Status.Repo.URL != "https://git.example.org/status.git" {
		t.Errorf("reports are looked for in %s, %v", s.Status.Repo.URL, err)
	}
}

func TestReadRegistryRefuses(t *testing.T) {
	t.Parallel()
	for name, kv := range map[string]map[string]string{
		"no url":       {"userName": "u"},
		"ssh":          {"url": "ssh://git@example.org/x"},
		"link-local":   {"url": "oci://169.254.169.254/x"},
		"credential":   {"url": "oci://u:planted@example.org/x"},
		"half a login": {"url": "oci://example.org/x", "gitToken": "planted"},
		"shards":       {"url": "oci://example.org/x", "refMode": "shard"},
		"status alone": {"url": "oci://example.org/x", "statusUrl": "https://git.example.org/status.git"},
	} {
		_, err := readOCI(kv)
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
