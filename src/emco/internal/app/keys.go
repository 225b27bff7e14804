package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/socket"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// sealingParts are the keys that the settings name.
type sealingParts struct {
	wrapper kek.Wrapper // the key-encryption key; nil: sealing.key of the data folder, which does not exist yet
	former  []seal.Key  // keys that may have sealed documents of older versions themselves
	file    string      // sealing.key of the data folder
}

// readSealing reads the keys that the settings name. The error names the setting.
func readSealing(c config.Config) (sealingParts, error) {
	p := sealingParts{file: keyFile(c)}
	own, err := seal.LoadKey(p.file)
	switch {
	case err == nil:
		p.former = append(p.former, own)
	case !errors.Is(err, fs.ErrNotExist):
		return p, fmt.Errorf("sealing.key: %w", err)
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
func (p sealingParts) openKeys(ctx context.Context, ring *keyring.Ring, driver store.Driver, wait time.Duration) error {
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

// keyService carries on rotations of the data keys, and seals what older versions stored in clear.
type keyService struct {
	ring     *keyring.Ring
	driver   store.Driver
	contexts *appcontext.Store
	pause    time.Duration // between two looks at the keys
	log      *slog.Logger
}

func (s *keyService) Name() string { return "keys" }
func (s *keyService) Ready() error { return nil }

// Run looks at the keys until ctx ends. A failure is tried again: everything that is sealed stays readable.
func (s *keyService) Run(ctx context.Context) error {
	for {
		if err := s.ring.Step(ctx, s.reseal); err != nil && ctx.Err() == nil {
			s.log.Warn("the data keys could not be read, or values not be sealed with the current one", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.pause):
		}
	}
}

func (s *keyService) reseal(ctx context.Context) (bool, error) {
	documents, err := store.Reseal(ctx, s.driver, s.ring.Sealer(), holdsValues)
	if err != nil {
		return false, err
	}
	contents, err := s.contexts.Reseal(ctx)
	if err != nil || documents.Left+contents.Left > 0 {
		return false, err
	}
	if contents.Large > 0 {
		s.log.Warn("contents above 1 MiB stay sealed as they are", "contents", contents.Large)
	}
	s.log.Info("all documents and contents are sealed with the current data key")
	return true, nil
}

// keyInfo is what emco keys prints of a data key.
type keyInfo struct {
	ID    string    `json:"id"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
	KEK   string    `json:"kek"`
}

// keyReport answers all commands of emco keys.
type keyReport struct {
	Keys    []keyInfo      `json:"keys"`
	Pending bool           `json:"pending"`         // values wait to be sealed with the current key
	Values  map[string]int `json:"values"`          // by key; of verify
	Plain   int            `json:"plain,omitempty"` // values that are not sealed; of verify
}

func reportOf(k keyring.Keys) keyReport {
	r := keyReport{Pending: k.Pending()}
	for _, key := range k.Keys {
		r.Keys = append(r.Keys, keyInfo{key.ID, key.State, key.Since, key.Wrapped.KEK})
	}
	return r
}

// mount adds the requests of emco keys to the socket of the process.
func (s *keyService) mount(mux *http.ServeMux) {
	answer := func(do func(r *http.Request) (keyReport, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			report, err := do(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(report)
		}
	}
	mux.HandleFunc("GET /keys", answer(func(r *http.Request) (keyReport, error) {
		k, err := s.ring.Keys(r.Context())
		return reportOf(k), err
	}))
	mux.HandleFunc("POST /keys/rotate", answer(func(r *http.Request) (keyReport, error) {
		k, err := s.ring.Rotate(r.Context())
		if err == nil {
			s.log.Info("a new data key is there", "keys", len(k.Keys))
		}
		return reportOf(k), err
	}))
	mux.HandleFunc("POST /keys/rewrap", answer(func(r *http.Request) (keyReport, error) {
		wrapper, err := s.ring.KEK(), error(nil)
		if to := r.FormValue("to"); to != "" {
			wrapper, err = kek.Open(to)
		}
		if err != nil {
			return keyReport{}, err
		}
		k, err := s.ring.Rewrap(r.Context(), wrapper)
		if err == nil {
			s.log.Info("the data keys are wrapped again", "kek", k.Current().Wrapped.KEK)
		}
		return reportOf(k), err
	}))
	mux.HandleFunc("GET /keys/verify", answer(func(r *http.Request) (keyReport, error) { return s.verify(r.Context()) }))
}

// verify opens everything that is sealed.
func (s *keyService) verify(ctx context.Context) (keyReport, error) {
	k, err := s.ring.Keys(ctx)
	if err != nil {
		return keyReport{}, err
	}
	documents, err := store.CountSealed(ctx, s.driver, s.ring.Sealer(), holdsValues)
	if err != nil {
		return keyReport{}, err
	}
	contents, err := s.contexts.CountSealed(ctx, true)
	if err != nil && !errs.Is(err, errs.NotFound) { // a sweep may remove content meanwhile
		return keyReport{}, err
	}
	r := reportOf(k)
	r.Values, r.Plain = documents.Keys, documents.Plain+contents.Plain
	for id, n := range contents.Keys {
		r.Values[id] += n
	}
	return r, nil
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
	c, code := load(rest, std, func(text string) { _, _ = fmt.Fprintln(std.Err, "emco: warning:", text) })
	if code != exitOK || c == nil {
		return code
	}
	if to != "" {
		request += "?" + url.Values{"to": {to}}.Encode()
	}
	report, err := askKeys(context.Background(), *c, request)
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco keys:", err)
		return exitFailed
	}
	report.print(std.Out)
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

func askKeys(ctx context.Context, c config.Config, request string) (keyReport, error) {
	var report keyReport
	method, target, _ := strings.Cut(request, " ")
	res, err := socket.Ask(ctx, localSocket(c), method, target)
	if err != nil {
		return report, fmt.Errorf("no emco answers in %s: start it, or name its data folder with -data (%w)", c.Data, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return report, err
	}
	if res.StatusCode != http.StatusOK {
		return report, errors.New(string(text))
	}
	return report, json.Unmarshal(text, &report)
}

func (r keyReport) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(t, "DATA KEY\tSTATE\tSINCE\tKEY-ENCRYPTION KEY")
	if r.Values != nil {
		_, _ = fmt.Fprint(t, "\tVALUES")
	}
	_, _ = fmt.Fprintln(t)
	for _, k := range r.Keys {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s", k.ID, k.State, k.Since.Format(time.RFC3339), k.KEK)
		if r.Values != nil {
			_, _ = fmt.Fprintf(t, "\t%d", r.Values[k.ID])
		}
		_, _ = fmt.Fprintln(t)
	}
	_ = t.Flush()
	if r.Plain > 0 {
		_, _ = fmt.Fprintf(w, "%d values are not sealed yet\n", r.Plain)
	}
	if r.Pending {
		_, _ = fmt.Fprintln(w, "values wait to be sealed with the current key")
	}
}
