package gitstatus

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxPayload limits the body of a webhook. The next poll finds what a larger one would announce.
const maxPayload = 4 << 20

// Webhook returns the handler for calls of Git servers: it polls the named repository at
// once. A call counts if its body is signed with the secret (X-Hub-Signature-256, as GitHub and
// Gitea do) or if it carries the secret (X-Gitlab-Token). Without a secret, no call
// counts.
func (s *Source) Webhook(secret string) web.HandlerFunc {
	return web.WithDryRun(func(w http.ResponseWriter, r *http.Request, dry bool) error {
		if secret == "" {
			return errs.E(errs.Forbidden, "receive", "webhook", errors.New("no secret is configured: set status.webhookSecret"))
		}
		body, err := web.Body(w, r, maxPayload)
		if err != nil {
			return err
		}
		if !verifySignature(r.Header, body, secret) {
			return errs.E(errs.Unauthorized, "receive", "webhook", errors.New("neither X-Hub-Signature-256 nor X-Gitlab-Token is that of the secret"))
		}
		if !dry {
			s.wake(repositoryPaths(body))
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	})
}

// verifySignature compares in constant time.
func verifySignature(h http.Header, body []byte, secret string) bool {
	if token := h.Get("X-Gitlab-Token"); token != "" {
		a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(secret))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
	signature, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	given, err := hex.DecodeString(signature)
	if !ok || err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(given, mac.Sum(nil))
}

// repositoryPaths returns the paths of the repository that a call names, without the host, which
// servers name in different ways. It is empty if the call names none.
func repositoryPaths(body []byte) map[string]bool {
	type addresses struct {
		CloneURL string `json:"clone_url"`
		SSHURL   string `json:"ssh_url"`
		HTTPURL  string `json:"git_http_url"`
		GitSSH   string `json:"git_ssh_url"`
		HTMLURL  string `json:"html_url"`
		Homepage string `json:"homepage"`
	}
	var call struct {
		Repository, Project addresses
	}
	out := map[string]bool{}
	if json.Unmarshal(body, &call) != nil {
		return out
	}
	for _, a := range []addresses{call.Repository, call.Project} {
		for _, text := range []string{a.CloneURL, a.SSHURL, a.HTTPURL, a.GitSSH, a.HTMLURL, a.Homepage} {
			if path := pathOf(text); path != "" {
				out[path] = true
			}
		}
	}
	return out
}

// pathOf returns the path of a repository's URL.
func pathOf(text string) string {
	if _, path, scp := strings.Cut(text, ":"); scp && !strings.Contains(text, "://") {
		text = "ssh://host/" + path
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"))
}

// wake has the named repositories polled, or all of them if it knows none of the names, by the processes that read
// them.
func (s *Source) wake(named map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := false
	for at := range s.locations {
		known = known || named[pathOf(at.repo.URL)]
	}
	elsewhere := false
	for at := range s.locations {
		path := pathOf(at.repo.URL)
		if known && !named[path] {
			continue
		}
		if p := s.pollers[at]; p != nil {
			p.wake()
			continue
		}
		elsewhere = true
		s.announced[path] = true
	}
	if elsewhere {
		select {
		case s.poke <- struct{}{}:
		default:
		}
	}
}

// maxAnnounced is how many repositories are announced by their names; more are announced as all.
const maxAnnounced = 1000

// announcePushes announces moved repositories to the other processes, at most once in minInterval.
func (s *Source) announcePushes(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.poke:
		}
		s.mu.Lock()
		p := gitstate.Push{By: s.holder}
		if len(s.announced) <= maxAnnounced {
			p.Paths = slices.Sorted(maps.Keys(s.announced))
		}
		none := len(s.announced) == 0 // the announcement before had them already
		clear(s.announced)
		s.mu.Unlock()
		if none {
			continue
		}
		if err := s.pushes.AnnouncePush(ctx, p); err != nil && ctx.Err() == nil {
			s.options.Log.Warn("a push was not announced to the other processes; the next poll finds it", "err", err)
		}
		_ = pause.For(ctx, minInterval)
	}
}

// followPushes polls the repositories that other processes announce.
func (s *Source) followPushes(ctx context.Context) {
	for p := range s.pushes.Pushes(ctx) {
		if p.By == s.holder {
			continue
		}
		s.mu.Lock()
		for at, its := range s.pollers {
			if len(p.Paths) == 0 || slices.Contains(p.Paths, pathOf(at.repo.URL)) {
				its.wake()
			}
		}
		s.mu.Unlock()
	}
}
