package gitstatus

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxPayload bounds the body of a webhook. What a larger one would say is found out by
// the next look.
const maxPayload = 4 << 20

// Webhook returns the handler of a Git server's calls: it makes the look at the
// repository that the call is about happen at once. A call is believed if its body is
// signed with the secret (X-Hub-Signature-256, as GitHub and Gitea do) or if it carries
// the secret (X-Gitlab-Token). Without a secret no call is believed.
func (s *Source) Webhook(secret string) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if secret == "" {
			return errs.E(errs.Forbidden, "receive", "webhook", errors.New("no secret is configured: set status.webhookSecret"))
		}
		body, err := web.Body(w, r, maxPayload)
		if err != nil {
			return err
		}
		if !genuine(r.Header, body, secret) {
			return errs.E(errs.Unauthorized, "receive", "webhook", errors.New("neither X-Hub-Signature-256 nor X-Gitlab-Token is that of the secret"))
		}
		s.wake(paths(body))
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

// genuine compares in a time that does not tell how much of a guess is right.
func genuine(h http.Header, body []byte, secret string) bool {
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

// paths returns the paths of the repository that a call is about, without host: servers
// name themselves in their own way. It is empty if the call does not say.
func paths(body []byte) map[string]bool {
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

// wake makes the pollers of the named repositories look, or all of them if none of
// them is named.
func (s *Source) wake(named map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	woken := false
	for at, p := range s.pollers {
		if named[pathOf(at.repo.URL)] {
			p.wake()
			woken = true
		}
	}
	if woken {
		return
	}
	for _, p := range s.pollers {
		p.wake()
	}
}
