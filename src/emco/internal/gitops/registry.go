package gitops

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// KindOCI is the sync type of clusters that read artifacts of a registry, and the
// provider of their "repositories".
const KindOCI = "oci"

// Published reports whether the desired state goes to a registry and not to Git. A cluster
// has an artifact there, which is published whole; there is no branch and no history.
func (s Settings) Published() bool { return s.Repo.Provider == KindOCI }

// readRegistry reads the keys of a repository of a registry. A login is optional: some
// registries want none. Reports come through Git all the same, if there is a place for them.
func readRegistry(p pairs, rules Rules) (Settings, error) {
	address := p.kv[keyURL]
	if address == "" {
		return Settings{}, lacks(p.name, []string{keyURL})
	}
	if rest, ok := strings.CutPrefix(address, "oci://"); ok {
		address = "https://" + rest
	}
	u, err := rules.check(address)
	if err == nil && u.scheme != "https" && u.scheme != "http" {
		err = errors.New("write oci://registry/repository")
	}
	if err != nil {
		return Settings{}, invalid(p.name, fmt.Errorf("%s: %w", keyURL, err))
	}
	for key := range map[string]bool{keyRefMode: true, keyShards: true, keyShardSize: true, keyViewPrefix: true} {
		if p.kv[key] != "" {
			return Settings{}, invalid(p.name, fmt.Errorf("%s is for Git: a registry has a tag for each cluster", key))
		}
	}
	s := Settings{Name: path.Base(u.path), Repo: git.Repo{
		URL: strings.TrimSuffix(u.text, "/"), User: p.kv[keyUser], Token: git.Secret(p.kv[keyToken]), CA: p.kv[keyCA], Provider: KindOCI,
	}}
	if (s.Repo.User == "") != (s.Repo.Token == "") {
		return Settings{}, invalid(p.name, fmt.Errorf("%s and %s belong together", keyUser, keyToken))
	}
	s.Branch = DefaultBranch // of nothing: what is published has no branches
	if err := checkGit(s); err != nil {
		return Settings{}, invalid(p.name, err)
	}
	if p.kv[keyStatusURL] != "" {
		if s.Status, err = readStatus(p, Settings{}, rules); err != nil {
			return Settings{}, invalid(p.name, err)
		}
	}
	return s, nil
}
