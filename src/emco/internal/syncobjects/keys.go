package syncobjects

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// The keys of sync objects, in the spelling of upstream's code.
const (
	keyGitType  = "gitType"
	keyUser     = "userName"
	keyToken    = "gitToken"
	keyRepoName = "repoName"
	keyURL      = "url"
	keyBranch   = "branch"

	// Not in upstream EMCO: Git over ssh, and servers with certificates of their own.
	keySSHKey     = "sshKey"
	keyKnownHosts = "knownHosts"
	keyCA         = "ca"
	keyClientCert = "clientCert" // presented to servers that ask for one
	keyClientKey  = "clientKey"
	keySSHClient  = "sshClient" // what speaks ssh: this program, or the ssh program

	keyProtected    = "onProtected"   // what to do where the branch is protected
	keyExternalEdit = "onForeignEdit" // what to do when others edit owned files
	keyAPI          = "apiUrl"        // where the interface of gitType is
	keyEngine       = "engine"        // superseded by sshClient

	keyTimeout   = "timeOut"
	keyInterval  = "syncInterval"
	keyRetry     = "retryInterval"
	keyDelay     = "delay"
	keySecretRef = "secretRef"

	keyRecipients = "ageRecipients" // for whom EMCO encrypts Secrets
	keyDecryption = "decryptionProvider"
)

// DefaultInterval is the value of each timing that a sync object leaves out, as in upstream EMCO.
const DefaultInterval = 60 * time.Second

// aliases are other spellings that upstream's documents and examples use, in lower case.
var aliases = map[string]string{
	"user": keyUser, "token": keyToken, "repourl": keyURL, "gitsecretref": keySecretRef,
}

var (
	gitKeys = map[string]bool{
		keyGitType: true, keyUser: true, keyToken: true, keyRepoName: true, keyURL: true,
		keyBranch: true, keySSHKey: true, keyKnownHosts: true, keyCA: true, keyClientCert: true, keyClientKey: true, keySSHClient: true, keyProtected: true, keyExternalEdit: true, keyAPI: true, keyEngine: true,
		keyAppID: true, keyAppInstallation: true, keyAppKey: true,
		keyRefMode: true, keyShardSize: true, keyShards: true, keyDerivedPrefix: true,
		keyRecipients: true, keyStatusURL: true, keyStatusUser: true, keyStatusToken: true, keyStatusBranch: true, keyStatusMode: true,
	}
	timing    = map[string]bool{keyTimeout: true, keyInterval: true, keyRetry: true, keyDelay: true}
	multiline = map[string]bool{keySSHKey: true, keyKnownHosts: true, keyCA: true, keyClientCert: true, keyClientKey: true, keyAppKey: true}
	spelled   = spellings()
)

// spellings maps every known key in lower case to its canonical spelling.
func spellings() map[string]string {
	out := map[string]string{strings.ToLower(keySecretRef): keySecretRef}
	for _, set := range []map[string]bool{gitKeys, timing} {
		for key := range set {
			out[strings.ToLower(key)] = key
		}
	}
	for alias, key := range aliases {
		out[alias] = key
	}
	return out
}

// canonicalKey returns the one spelling of a key for a sync type; keys that are not known
// here stay.
func canonicalKey(kind, key string) string {
	lower := strings.ToLower(key)
	if canonical, ok := spelled[lower]; ok {
		return canonical
	}
	if canonical, ok := bucketKeys[lower]; ok && kind == KindS3 {
		return canonical
	}
	return key
}

// Canonical returns the canonical name of a sync type in any case, or Invalid for an
// unknown type. The registry of backends decides whether this program has such a
// backend.
func Canonical(kind string) (string, error) {
	canonical, ok := v2.GitOpsType(strings.TrimSpace(kind))
	if !ok {
		known := slices.Sorted(slices.Values(v2.GitOpsTypes()))
		return "", errs.New(errs.Invalid, fmt.Sprintf("gitOpsType %q is not known; use one of %s", kind, strings.Join(known, ", ")))
	}
	return canonical, nil
}

// maxDuration bounds timings; a week is longer than anyone waits for a sync.
const maxDuration = 7 * 24 * time.Hour

// ParseDuration reads a timing: seconds as a decimal number, as upstream EMCO has it, or a Go
// duration such as "90s" or "5m", cut to whole seconds. Those below a second, except
// zero, and those above a week are refused.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseUint(text, 10, 31); numErr == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d != 0 && d < time.Second || d > maxDuration {
		return 0, errors.New("give seconds, or a duration such as 90s or 5m, of at most a week")
	}
	return d.Truncate(time.Second), nil
}

// Duration is a timing within a backend's options.
type Duration time.Duration

// UnmarshalText reads seconds or a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Or returns the timing, or otherwise when it is zero.
func (d Duration) Or(otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// Flag is a switch within a backend's options.
type Flag bool

// UnmarshalText reads "true" or "false", in any case.
func (f *Flag) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "true":
		*f = true
	case "false":
		*f = false
	default:
		return errors.New("give true or false")
	}
	return nil
}
