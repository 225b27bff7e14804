// Package syncobjects makes Settings from the two sync objects of a cluster: the repository and branch, or the registry
// or bucket (Settings.Published), the credential, and options of the backend. Only package route reads
// the objects and calls Read: for each lookup, and when package clm registers a cluster, so that a user who makes a mistake
// gets the error at once.
//
// Upstream's design calls the reference object the provider's and the resource object
// the repository's; upstream's code reads Git from the reference object. Here content
// decides: the object that names a repository is the Git object.
package syncobjects

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sops"
	"github.com/emco-orchestrator/emco/src/git"
)

// DefaultBranch is the branch of a Git object that names none.
const DefaultBranch = "main"

// Object is a cluster-sync-object as its document holds it. A zero Object stands for
// an object that the cluster does not name.
type Object struct {
	Name string
	KV   []map[string]string // maps with one key or with many; all are merged
}

// Settings are what a cluster's sync objects add up to.
type Settings struct {
	Kind    string   // canonical, see v2.GitOpsTypes
	Repo    git.Repo // with its credential, and the provider whose interface it is written by
	Name    string   // the repository's name, without owner and without ".git"
	Branch  string
	Propose bool   // open a pull or merge request where the branch is protected
	Hold    bool   // keep external edits of owned files until an operator decides; else overwrite them
	Status  Status // where the cluster's agent reports

	Sharding      Sharding // how clusters share the repository
	DerivedBranch string   // of one cluster, see At: the branch that it reads; empty: Branch
	FanOut        bool     // of one cluster: its directory is one level deeper

	Recipients []string // public keys of age that EMCO encrypts Secrets for, sorted; none: it cannot

	// Delay is how long to wait between taking files away and taking the backend's
	// own configuration away.
	Delay time.Duration
	// Options are all other pairs, for the sync backend: timings as durations, the
	// three common ones always present.
	Options map[string]string
}

// ReadURL returns the URL that a reconciler on the edge reads from. It holds no
// credential; for ssh it holds the login name, which is part of the address there.
func (s Settings) ReadURL() string {
	rest, ssh := strings.CutPrefix(s.Repo.URL, "ssh://")
	if !ssh || s.Repo.User == "" {
		return s.Repo.URL
	}
	return "ssh://" + s.Repo.User + "@" + rest
}

// Read reads the sync objects of a cluster of the given sync type. Errors are
// Invalid: they name the object at fault and every key that it lacks, and show no
// value. A resource object that is left empty is fine.
func Read(kind string, reference, resource Object, rules Rules) (Settings, error) {
	canonical, err := Canonical(kind)
	if err != nil {
		return Settings{}, err
	}
	ref, err := merge(canonical, reference)
	if err != nil {
		return Settings{}, err
	}
	res, err := merge(canonical, resource)
	if err != nil {
		return Settings{}, err
	}
	object := pick(canonical, ref, res)
	s, err := readPlace(canonical, object, rules)
	if err != nil {
		return Settings{}, err
	}
	if s.Sharding, err = readSharding(object, s); err == nil {
		err = checkApart(s)
	}
	if err != nil {
		return Settings{}, invalid(object.name, err)
	}
	s.Kind = canonical
	if s.Options, s.Delay, err = options(ref, res); err == nil {
		s.Recipients, err = recipients(canonical, ref, res, s.Options)
	}
	if canonical == KindS3 && err == nil {
		s.Options = bucketOptions(s)
	}
	return s, err
}

// readPlace reads where the desired state goes, and where reports come from.
func readPlace(kind string, object keyValues, rules Rules) (s Settings, err error) {
	switch kind {
	case KindOCI:
		return readRegistry(object, rules)
	case KindS3:
		return readBucket(object, rules)
	}
	if s, err = readGit(object, rules); err != nil {
		return Settings{}, err
	}
	if s.Status, err = readStatus(object, s, rules); err != nil {
		return Settings{}, invalid(object.name, err)
	}
	return s, nil
}

// keyValues are an object's merged maps under canonical keys.
type keyValues struct {
	name string
	kv   map[string]string
}

// merge puts an object's maps into one. Upstream EMCO reads one key of each map; a key that
// occurs twice must have one value.
func merge(kind string, o Object) (keyValues, error) {
	out := keyValues{name: o.Name, kv: map[string]string{}}
	for _, kv := range o.KV {
		for _, key := range slices.Sorted(maps.Keys(kv)) {
			name, value := canonicalKey(kind, key), clean(key, kv[key])
			if have, twice := out.kv[name]; twice && have != value {
				return keyValues{}, invalid(o.Name, fmt.Errorf("%s is given twice, and differs", key))
			}
			out.kv[name] = value
		}
	}
	return out, nil
}

// clean drops the blanks and the line end that come along when a value is pasted.
// Keys and certificates keep theirs.
func clean(key, value string) string {
	if multiline[canonicalKey("", key)] {
		return value
	}
	return strings.TrimSpace(value)
}

// pick returns the object that holds Git keys. When both do, the one with the repository's
// URL wins, and after that the reference object, which upstream's code reads.
func pick(kind string, ref, res keyValues) keyValues {
	if weight(kind, res) > weight(kind, ref) {
		return res
	}
	return ref
}

// weight counts how much an object looks like a Git object, or like one of a bucket.
func weight(kind string, p keyValues) int {
	switch {
	case kind == KindS3:
		return 4 - len(missingOfBucket(p))
	case p.kv[keyURL] != "":
		return 3
	case p.kv[keyRepoName] != "" || p.kv[keyGitType] != "":
		return 2
	case p.kv[keyToken] != "" || p.kv[keySSHKey] != "" || p.kv[keyBranch] != "":
		return 1
	}
	return 0
}

// recipients returns the keys that EMCO encrypts Secrets for. The resource object wins.
func recipients(kind string, ref, res keyValues, options map[string]string) ([]string, error) {
	at := res
	if at.kv[keyRecipients] == "" {
		at = ref
	}
	text := at.kv[keyRecipients]
	if text == "" {
		return nil, nil
	}
	out, err := sops.Recipients(text)
	if err == nil && kind == v2.FluxCD && options[keyDecryption] == "" {
		err = fmt.Errorf("needs %s: sops, or Flux does not decrypt", keyDecryption)
	}
	if err != nil {
		return nil, invalid(at.name, fmt.Errorf("%s: %w", keyRecipients, err))
	}
	return out, nil
}

// options returns the pairs that are no Git keys. The resource object wins, because
// upstream's code reads them from there.
func options(ref, res keyValues) (map[string]string, time.Duration, error) {
	out := map[string]string{}
	var delay time.Duration
	for _, p := range []keyValues{ref, res} {
		for _, key := range slices.Sorted(maps.Keys(p.kv)) {
			value := p.kv[key]
			if gitKeys[key] || value == "" {
				continue
			}
			if !timing[key] {
				out[key] = value
				continue
			}
			d, err := ParseDuration(value)
			if err != nil {
				return nil, 0, invalid(p.name, fmt.Errorf("%s: %w", key, err))
			}
			out[key] = d.String()
			if key == keyDelay {
				delay = d
			}
		}
	}
	delete(out, keyDelay)
	for _, key := range []string{keyTimeout, keyInterval, keyRetry} {
		if out[key] == "" {
			out[key] = DefaultInterval.String()
		}
	}
	return out, delay, nil
}

// invalid returns an Invalid error about a sync object.
func invalid(object string, err error) error {
	if object == "" {
		return errs.E(errs.Invalid, "read", "the cluster's sync objects", err)
	}
	return errs.E(errs.Invalid, "read", "cluster-sync-object "+object, err)
}

// lacks returns an Invalid error that lists missing keys, nil if there are none.
func lacks(object string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return invalid(object, errors.New("these keys are missing: "+strings.Join(keys, ", ")))
}
