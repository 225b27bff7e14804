package syncobjects

import (
	"errors"
	"fmt"
	"path"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// KindOCI is the sync type of clusters that read artifacts of a registry, and the
// provider of their "repositories".
const KindOCI = v2.OCI

// Published reports whether the desired state goes to a registry or a bucket and not to
// Git. A cluster's folder is published whole there; there is no branch and no history.
func (s Settings) Published() bool {
	return s.Repo.Provider == KindOCI || s.Repo.Provider == KindS3
}

// readRegistry reads the keys of a repository of a registry. A login is optional: some
// registries want none. Reports come through Git all the same, if there is a place for them.
func readRegistry(p keyValues, rules Rules) (Settings, error) {
	address := p.kv[keyURL]
	if address == "" {
		return Settings{}, lacks(p.name, []string{keyURL})
	}
	u, err := rules.anyTransport().check(registryAddress(address))
	if err == nil && u.scheme != "https" && u.scheme != "http" {
		err = errors.New("write oci://registry/repository")
	}
	if err != nil {
		return Settings{}, invalid(p.name, fmt.Errorf("%s: %w", keyURL, err))
	}
	if err := noShards(p); err != nil {
		return Settings{}, err
	}
	s := Settings{Name: path.Base(u.path), Repo: git.Repo{
		URL: strings.TrimSuffix(u.text, "/"), User: p.kv[keyUser], Token: git.Secret(p.kv[keyToken]), CA: p.kv[keyCA], Provider: KindOCI,
	}}
	if (s.Repo.User == "") != (s.Repo.Token == "") {
		return Settings{}, invalid(p.name, fmt.Errorf("%s and %s belong together", keyUser, keyToken))
	}
	return published(p, s, rules)
}

// registryAddress returns the address of a repository of a registry as a URL.
func registryAddress(text string) string {
	if rest, ok := strings.CutPrefix(text, "oci://"); ok {
		return "https://" + rest
	}
	return text
}

// noShards refuses keys that part a branch.
func noShards(p keyValues) error {
	for _, key := range []string{keyRefMode, keyShards, keyShardSize, keyDerivedPrefix} {
		if p.kv[key] != "" {
			return invalid(p.name, fmt.Errorf("%s is for Git: what is published is apart for each cluster", key))
		}
	}
	return nil
}

// published completes the settings of what is published.
func published(p keyValues, s Settings, rules Rules) (_ Settings, err error) {
	s.Branch = DefaultBranch // of nothing: what is published has no branches
	if err := checkGit(s); err != nil {
		return Settings{}, invalid(p.name, err)
	}
	if p.kv[keyStatusURL] != "" || p.kv[keyStatusMode] == StatusHTTPS {
		if s.Status, err = readStatus(p, Settings{}, rules); err != nil {
			return Settings{}, invalid(p.name, err)
		}
	}
	return s, nil
}
