// Package keyrotation completes rotations of the data keys while the program serves: it makes the next key the current
// one, and seals stored values with it. It also answers the command emco keys.
package keyrotation

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
)

// Service carries on rotations of the data keys, and seals what older versions stored in clear.
type Service struct {
	Ring     *keyring.Ring
	Driver   store.Driver
	Contexts *appcontext.Store
	Holds    func(store.Key) bool // whether the bodies of such documents are sealed
	Pause    time.Duration        // between two looks at the keys
	Log      *slog.Logger
}

// Name is "keys".
func (s *Service) Name() string { return "keys" }

// Ready is always nil: what is sealed opens also while a rotation waits.
func (s *Service) Ready() error { return nil }

// Run looks at the keys until ctx ends. A failure is tried again: everything that is sealed stays readable.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.Ring.Step(ctx, s.reseal); err != nil && ctx.Err() == nil {
			s.Log.Warn("the data keys could not be read, or values not be sealed with the current one", "err", err)
		}
		if pause.For(ctx, s.Pause) != nil {
			return nil
		}
	}
}

func (s *Service) reseal(ctx context.Context) (bool, error) {
	documents, err := store.Reseal(ctx, s.Driver, s.Ring.Sealer(), s.Holds)
	if err != nil {
		return false, err
	}
	contents, err := s.Contexts.Reseal(ctx)
	if err != nil || documents.Left+contents.Left > 0 {
		return false, err
	}
	if documents.Done+contents.Done > 0 { // look again: the last values that were sealed with the former key may arrive late
		return false, nil
	}
	if contents.Large > 0 {
		s.Log.Warn("contents above 1 MiB stay sealed as they are", "contents", contents.Large)
	}
	s.Log.Info("all documents and contents are sealed with the current data key")
	return true, nil
}

// Mount adds the requests of emco keys to the socket of the process.
func (s *Service) Mount(mux *http.ServeMux) {
	answer := func(do func(r *http.Request) (Report, error)) http.HandlerFunc {
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
	mux.HandleFunc("GET /keys", answer(func(r *http.Request) (Report, error) {
		k, err := s.Ring.Keys(r.Context())
		return reportOf(k), err
	}))
	mux.HandleFunc("POST /keys/rotate", answer(func(r *http.Request) (Report, error) {
		k, err := s.Ring.Rotate(r.Context())
		if err == nil {
			s.Log.Info("a new data key is there", "keys", len(k.Keys))
		}
		return reportOf(k), err
	}))
	mux.HandleFunc("POST /keys/rewrap", answer(func(r *http.Request) (Report, error) {
		wrapper, err := s.Ring.KEK(), error(nil)
		if to := r.FormValue("to"); to != "" {
			wrapper, err = kek.Open(to)
		}
		if err != nil {
			return Report{}, err
		}
		k, err := s.Ring.Rewrap(r.Context(), wrapper)
		if err == nil {
			s.Log.Info("the data keys are wrapped again", "kek", k.Current().Wrapped.KEK)
		}
		return reportOf(k), err
	}))
	mux.HandleFunc("GET /keys/verify", answer(func(r *http.Request) (Report, error) { return s.verify(r.Context()) }))
}

// verify opens everything that is sealed.
func (s *Service) verify(ctx context.Context) (Report, error) {
	k, err := s.Ring.Keys(ctx)
	if err != nil {
		return Report{}, err
	}
	documents, err := store.CountSealed(ctx, s.Driver, s.Ring.Sealer(), s.Holds)
	if err != nil {
		return Report{}, err
	}
	contents, err := s.Contexts.CountSealed(ctx, true)
	if err != nil && !errs.Is(err, errs.NotFound) { // a sweep may remove content meanwhile
		return Report{}, err
	}
	r := reportOf(k)
	r.Values, r.Plain = documents.Keys, documents.Plain+contents.Plain
	for id, n := range contents.Keys {
		r.Values[id] += n
	}
	return r, nil
}
