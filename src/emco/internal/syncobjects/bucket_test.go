package syncobjects_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// bucket returns the pairs of a sound bucket, changed.
func bucket(change map[string]string) syncobjects.Object {
	kv := map[string]string{
		"endpoint": "https://s3.example.org:9000/", "bucket": "fleet", "accessKey": "planted-access", "secretKey": "planted-secret",
	}
	maps.Copy(kv, change)
	return syncobjects.Object{Name: "o", KV: []map[string]string{kv}}
}

func TestReadBucket(t *testing.T) {
	t.Parallel()
	s, err := syncobjects.Read("Bucket", bucket(map[string]string{"Region": "eu-west-1", "prefix": "/edge/north/", "sourceName": "emco"}), syncobjects.Object{}, syncobjects.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != "s3" || s.Repo.URL != "https://s3.example.org:9000/fleet/edge/north" || s.Repo.API != "https://s3.example.org:9000?region=eu-west-1" {
		t.Errorf("Read = %s at %s, %s", s.Kind, s.Repo.URL, s.Repo.API)
	}
	if s.Repo.User != "planted-access" || s.Repo.Token.Reveal() != "planted-secret" || !s.Published() || s.Name != "fleet" {
		t.Errorf("Read = %+v", s)
	}
	want := map[string]string{"prefix": "edge/north", "sourceName": "emco", "timeOut": "1m0s", "syncInterval": "1m0s", "retryInterval": "1m0s"}
	if !maps.Equal(s.Options, want) {
		t.Errorf("options are %v, want %v", s.Options, want)
	}
	if s.Status.Repo.URL != "" {
		t.Errorf("reports are looked for in %s", s.Status.Repo.URL)
	}
}

func TestReadBucketByItsDefaults(t *testing.T) {
	t.Parallel()
	timing := syncobjects.Object{Name: "t", KV: []map[string]string{{"prefix": "ignored", "syncInterval": "5"}}}
	for name, c := range map[string]struct{ reference, resource syncobjects.Object }{
		"the reference object names it": {bucket(map[string]string{"endpoint": "s3.example.org"}), timing},
		"the resource object names it":  {timing, bucket(map[string]string{"endpoint": "s3.example.org"})},
	} {
		s, err := syncobjects.Read("s3", c.reference, c.resource, syncobjects.Rules{})
		if err != nil || s.Repo.URL != "https://s3.example.org/fleet" || s.Repo.API != "https://s3.example.org" {
			t.Errorf("%s: %s, %s, %v", name, s.Repo.URL, s.Repo.API, err)
		}
		if s.Options["prefix"] != "" || s.Options["syncInterval"] != "5s" {
			t.Errorf("%s: options are %v", name, s.Options)
		}
	}
}

// To other backends these keys are options like any other.
func TestKeysOfABucketAreOptionsElsewhere(t *testing.T) {
	t.Parallel()
	repo := syncobjects.Object{Name: "r", KV: []map[string]string{{"url": "https://git.example.org/r.git", "userName": "u", "gitToken": "t"}}}
	options := syncobjects.Object{Name: "o", KV: []map[string]string{{"Bucket": "b", "endpoint": "e", "plugin": "p"}}}
	for _, both := range [][2]syncobjects.Object{{repo, options}, {options, repo}} {
		s, err := syncobjects.Read("exec", both[0], both[1], syncobjects.Rules{})
		if err != nil || s.Options["Bucket"] != "b" || s.Options["endpoint"] != "e" {
			t.Errorf("options are %v, %v", s.Options, err)
		}
	}
}

func TestReadBucketRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]string{
		"no endpoint":          {"endpoint": ""},
		"no bucket":            {"bucket": ""},
		"no key":               {"accessKey": ""},
		"no secret":            {"secretKey": ""},
		"bucket in endpoint":   {"endpoint": "https://s3.example.org/fleet"},
		"ssh":                  {"endpoint": "ssh://s3.example.org"},
		"link-local":           {"endpoint": "http://169.254.169.254"},
		"credential":           {"endpoint": "https://u:planted@s3.example.org"},
		"query":                {"endpoint": "https://s3.example.org?x=y"},
		"capitals":             {"bucket": "Fleet"},
		"long bucket":          {"bucket": strings.Repeat("b", 64)},
		"long region":          {"region": strings.Repeat("r", 65)},
		"climbing bucket":      {"bucket": ".."},
		"dots":                 {"bucket": "a..b"},
		"climbing prefix":      {"prefix": "a/../b"},
		"empty name in prefix": {"prefix": "a//b"},
		"hidden":               {"prefix": ".git"},
		"blank in prefix":      {"prefix": "a b"},
		"region":               {"region": "eu west&x=y"},
		"control character":    {"secretKey": "planted\nx"},
		"shards":               {"refMode": "shard"},
		"status alone":         {"statusUrl": "https://git.example.org/status.git"},
	} {
		_, err := syncobjects.Read("s3", bucket(change), syncobjects.Object{}, syncobjects.Rules{})
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
