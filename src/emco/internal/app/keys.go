package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/keyrotation"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// sealingKeys are the keys that the settings name.
type sealingKeys struct {
	wrapper kek.Wrapper // the key-encryption key; nil: sealing.key of the data folder, which does not exist yet
	former  []seal.Key  // keys that may have sealed documents of older versions themselves
	file    string      // sealing.key of the data folder
}

// readSealing reads the keys that the settings name. The error names the setting.
func readSealing(c config.Config) (sealingKeys, error) {
	p := sealingKeys{file: keyFile(c)}
	own, err := seal.LoadKey(p.file)
	switch {
	case err == nil:
		p.former = append(p.former, own)
	case !errors.Is(err, fs.ErrNotExist):
		return p, fmt.Errorf("sealing.key: %w", fileowner.Explain(err, p.file))
	}
	switch {
	case c.Store.Key != "":
		key, err := seal.ParseKey(c.Store.Key.Reveal())
		if err != nil {
			return p, fmt.Errorf("store.key: %w", err)
		}
		p.wrapper, p.former = kek.Local(key), append(p.former, key)
	case c.Encryption.KEK != "":
		if p.wrapper, err = kek.Open(c.Encryption.KEK); err != nil {
			return p, fmt.Errorf("encryption.kek: %w", err)
		}
		if key, ok := kek.KeyOf(p.wrapper); ok {
			p.former = append(p.former, key)
		}
	case len(p.former) > 0:
		p.wrapper = kek.Local(own)
	}
	return p, nil
}

func keyFile(c config.Config) string { return c.Path("sealing.key") }

// keyWait is the time between the creation of a data key and its first use. Processes read the keys keyLooks
// times meanwhile, so each knows a key before another one uses it.
const (
	keyWait  = 10 * time.Second
	keyLooks = 5
)

// openKeys reads the data keys of the store, or makes the first one.
func (p sealingKeys) openKeys(ctx context.Context, ring *keyring.Ring, driver store.Driver, wait time.Duration) error {
	o := keyring.Options{Driver: driver, Former: p.former, Wait: wait, Now: time.Now}
	o.KEK = func(first bool) (kek.Wrapper, error) {
		if p.wrapper != nil {
			return p.wrapper, nil
		}
		load := seal.LoadKey // it may be there since a moment: another call has made it
		if first {
			load = seal.LoadOrCreateKey
		}
		key, err := load(p.file)
		return kek.Local(key), err
	}
	err := ring.Open(ctx, o)
	switch {
	case errors.Is(err, fs.ErrNotExist) || p.wrapper == nil && errors.Is(err, seal.ErrNoKey):
		return fmt.Errorf("sealing key %s is missing, but documents are sealed with it: restore it from a backup, or give it as store.key or encryption.kek; processes that share documents need the same key (%w)", p.file, err)
	case errors.Is(err, seal.ErrNoKey):
		return fmt.Errorf("the sealing key does not open what is sealed; restore the right one, or give this process the encryption.kek or store.key of the others: %w", err)
	case err != nil:
		return fmt.Errorf("read the data keys: %w", err)
	}
	return nil
}

// holdsValues reports whether the body of a document may hold secrets of users among other values: override
// values, key-value pairs, and patches of the generic action controller. Such bodies are sealed.
func holdsValues(k store.Key) bool {
	switch path.Base(path.Dir(string(k))) {
	case "deployment-intent-groups", "kv-pairs", "customizations":
		return true
	}
	return false
}

const keysUsage = `emco keys [flags] list              show the data keys of a running emco
emco keys [flags] verify            open everything that is sealed, and count it by key
emco keys [flags] rotate            make a new data key, and seal everything with it
emco keys [flags] rewrap [ADDRESS]  wrap the data keys again: with the key-encryption key at ADDRESS (file:///PATH,
                                    env://VARIABLE, kms://unix:/PATH), or with the present one; set encryption.kek
                                    to ADDRESS before the next start
`

// keysCommand asks the process that owns the data folder about its keys.
func keysCommand(args []string, std IO) int {
	verb, to, rest := keysArguments(args)
	request := map[string]string{
		"list": "GET /keys", "verify": "GET /keys/verify", "rotate": "POST /keys/rotate", "rewrap": "POST /keys/rewrap",
	}[verb]
	if request == "" || to != "" && (verb != "rewrap" || kek.Check(to) != nil) {
		_, _ = io.WriteString(std.Err, "emco keys: use\n"+keysUsage)
		return exitUsage
	}
	c, code := load(rest, std, warnTo(std.Err))
	if code != exitOK || c == nil {
		return code
	}
	if to != "" {
		request += "?" + url.Values{"to": {to}}.Encode()
	}
	report, err := keyrotation.Ask(context.Background(), localSocket(*c), request)
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco keys:", err)
		return exitFailed
	}
	report.Print(std.Out)
	return exitOK
}

// keysArguments takes the verb and an address off the end of the command line.
func keysArguments(args []string) (verb, to string, rest []string) {
	n := len(args)
	if n >= 2 && args[n-2] == "rewrap" {
		return args[n-2], args[n-1], args[:n-2]
	}
	if n >= 1 {
		return args[n-1], "", args[:n-1]
	}
	return "", "", nil
}
