package syncobjects

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// KindS3 is the sync type of clusters that read objects of a bucket, and the provider of
// their "repositories". Of such a one the URL is https://host/bucket/prefix, the user the
// access key, the token the secret key, and API the endpoint with the region as its query:
// https://host?region=name.
const KindS3 = v2.S3

// The keys of a bucket; not in upstream EMCO.
const (
	keyEndpoint  = "endpoint"
	keyBucket    = "bucket"
	keyRegion    = "region"
	keyPrefix    = "prefix"
	keyAccessKey = "accessKey"
	keySecretKey = "secretKey"
)

// bucketKeys maps the keys of a bucket in lower case to their spelling. They have a meaning
// for KindS3 alone: other backends may have options of these names.
var bucketKeys = map[string]string{
	"endpoint": keyEndpoint, "bucket": keyBucket, "region": keyRegion, "prefix": keyPrefix,
	"accesskey": keyAccessKey, "secretkey": keySecretKey,
}

// The longest names.
const (
	maxBucket = 63
	maxRegion = 64
)

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]+[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// readBucket reads the keys of a bucket. Reports come through Git, if there is a place for them.
func readBucket(p keyValues, rules Rules) (Settings, error) {
	if err := lacks(p.name, missingOfBucket(p)); err != nil {
		return Settings{}, err
	}
	if err := noShards(p); err != nil {
		return Settings{}, err
	}
	repo, err := bucketOf(p, rules)
	if err != nil {
		return Settings{}, invalid(p.name, err)
	}
	return published(p, Settings{Name: p.kv[keyBucket], Repo: repo}, rules)
}

func missingOfBucket(p keyValues) (out []string) {
	for _, key := range []string{keyEndpoint, keyBucket, keyAccessKey, keySecretKey} {
		if p.kv[key] == "" {
			out = append(out, key)
		}
	}
	return out
}

// bucketOf returns the repository that stands for a bucket and a prefix.
func bucketOf(p keyValues, rules Rules) (git.Repo, error) {
	endpoint, err := rules.endpoint(p.kv[keyEndpoint])
	if err != nil {
		return git.Repo{}, fmt.Errorf("%s: %w", keyEndpoint, err)
	}
	bucket, region := p.kv[keyBucket], p.kv[keyRegion]
	if len(bucket) > maxBucket || !bucketName.MatchString(bucket) || strings.Contains(bucket, "..") {
		return git.Repo{}, fmt.Errorf("%s is no name of a bucket", keyBucket)
	}
	prefix, err := BucketPrefix(p.kv[keyPrefix])
	if err != nil {
		return git.Repo{}, fmt.Errorf("%s: %w", keyPrefix, err)
	}
	repo := git.Repo{
		URL: endpoint + "/" + bucket, API: endpoint, User: p.kv[keyAccessKey], Token: git.Secret(p.kv[keySecretKey]),
		CA: p.kv[keyCA], Provider: KindS3,
	}
	if prefix != "" {
		repo.URL += "/" + prefix
	}
	if region != "" {
		if len(region) > maxRegion || !regionName.MatchString(region) {
			return git.Repo{}, fmt.Errorf("%s is no name of a region", keyRegion)
		}
		repo.API += "?" + url.Values{keyRegion: {region}}.Encode()
	}
	return repo, nil
}

// endpoint checks the address of a server, which is a host without a path, and returns it
// with its scheme.
func (r Rules) endpoint(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	text = strings.TrimSuffix(text, "/")
	u, err := r.check(text + "/bucket")
	switch {
	case err != nil:
		return "", err
	case u.scheme != "https" && u.scheme != "http", u.path != "/bucket":
		return "", errors.New("write https://host, without the bucket")
	}
	return strings.TrimSuffix(u.text, "/bucket"), nil
}

// BucketPrefix returns a prefix of keys without the slashes around it. It is Invalid if
// it would not be a plain path on a disk, as which reconcilers read it.
func BucketPrefix(text string) (string, error) {
	prefix := strings.Trim(text, "/")
	if prefix != "" && (!prefixName.MatchString(prefix) || len(prefix) > 200) {
		return "", errors.New("give names of letters, digits, ., _ and -, with / between them, of at most 200 characters")
	}
	return prefix, nil
}

// bucketOptions removes the options that locate the bucket, but keeps the normalised prefix:
// paths begin with it.
func bucketOptions(s Settings) map[string]string {
	for _, key := range bucketKeys {
		delete(s.Options, key)
	}
	if _, prefix, _ := strings.Cut(strings.TrimPrefix(s.Repo.URL, endpointOf(s)+"/"), "/"); prefix != "" {
		s.Options[keyPrefix] = prefix
	}
	return s.Options
}

func endpointOf(s Settings) string {
	endpoint, _, _ := strings.Cut(s.Repo.API, "?")
	return endpoint
}
