package syncobjects_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// sharded reads a Git object with further keys.
func sharded(more map[string]string) (syncobjects.Settings, error) {
	all := map[string]string{"url": "https://h/r", "userName": "u", "gitToken": "t"}
	maps.Copy(all, more)
	return syncobjects.Read("git", syncobjects.Object{Name: "git", KV: keyValueMaps{all}}, syncobjects.Object{}, syncobjects.Rules{})
}

func TestOneBranchUnlessSomethingElseIsSaid(t *testing.T) {
	t.Parallel()
	s, err := sharded(nil)
	if err != nil || s.Sharding != (syncobjects.Sharding{Mode: "branch", Size: 1000, First: 1, DerivedPrefix: "clusters/"}) {
		t.Fatalf("sharding is %+v, %v", s.Sharding, err)
	}
	if at := s.At("p+c", syncobjects.Slot{}); at.Branch != "main" || at.DerivedBranch != "" || at.FanOut || at.ReadBranch() != "main" || at.DerivedBranches("clusters/p+c") != nil {
		t.Errorf("a cluster is at %+v", at)
	}
}

func TestSlotSelectsBranch(t *testing.T) {
	t.Parallel()
	s, err := sharded(map[string]string{"refMode": "cluster", "shardSize": "20", "shards": "4", "branch": "fleet", "viewPrefix": "edge/"})
	if err != nil || s.Sharding.Size != 20 || s.Sharding.First != 4 {
		t.Fatalf("sharding is %+v, %v", s.Sharding, err)
	}
	if at := s.At("p+c", syncobjects.Slot{Mode: "shard", Shard: "s003", FanOut: true}); at.Branch != "fleet-s003" || at.ReadBranch() != "fleet-s003" || !at.FanOut {
		t.Errorf("in a shard: %+v", at)
	}
	at := s.At("p+c", syncobjects.Slot{Mode: "cluster", Shard: "s003"})
	if at.Branch != "fleet-s003" || at.ReadBranch() != "edge/p+c" {
		t.Errorf("with a derived branch: %+v", at)
	}
	derived := at.DerivedBranches("clusters/p+c")
	if len(derived) != 1 || derived[0].Branch != "edge/p+c" || derived[0].Dir != "clusters/p+c" || len(derived[0].Empty) == 0 {
		t.Errorf("its derived branches are %+v", derived)
	}
}

func TestShardingThatCannotBeIsInvalid(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string]map[string]string{
		"refMode":            {"refMode": "path"},
		"shardSize":          {"refMode": "shard", "shardSize": "0"},
		"shards":             {"refMode": "shard", "shards": "many"},
		"viewPrefix":         {"refMode": "cluster", "viewPrefix": "a..b/"},
		"next to":            {"refMode": "cluster", "branch": "clusters"},
		"below main-s000/":   {"refMode": "cluster", "viewPrefix": "main-s000/"},
		"same branches":      {"refMode": "cluster", "viewPrefix": "status/"},
		"to the same branch": {"refMode": "cluster", "statusBranch": "clusters/"},
	} {
		if s, err := sharded(keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: read as %+v, %v; want an error with %q", keys, s.Sharding, err, want)
		}
	}
	for _, keys := range []map[string]string{
		{"refMode": "cluster", "viewPrefix": "mainland/"},
		{"refMode": "shard", "gitType": "github"},
		{"refMode": "cluster", "viewPrefix": "status/", "statusMode": "path"},
	} {
		if _, err := sharded(keys); err != nil {
			t.Errorf("%v: %v", keys, err)
		}
	}
}
