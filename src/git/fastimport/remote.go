package fastimport

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// inherited is what the program gets of our environment.
var inherited = []string{
	"PATH", "TMPDIR", "KRB5CCNAME", "KRB5_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY",
}

// environment is that of every run. It asks nobody for anything, and reads no settings but
// those of whoever runs this program.
func (h *Host) environment() []string {
	config := h.opt.Config
	if config == "" {
		config = os.DevNull
	}
	env := []string{
		"LC_ALL=C", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config,
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_LITERAL_PATHSPECS=1", "GIT_ALLOW_PROTOCOL=none",
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// way is how one run reaches the server.
type way struct {
	config  [][2]string // settings of the program, given by its environment
	env     []string
	dir     string // for what has to be a file; empty: there is none
	http    bool
	closers []func()
}

func (w *way) set(key, value string) { w.config = append(w.config, [2]string{key, value}) }

// file writes a file for the time of the run.
func (w *way) file(name, content string) (string, error) {
	if w.dir == "" {
		dir, err := os.MkdirTemp("", "emco-git-")
		if err != nil {
			return "", err
		}
		w.dir = dir
		w.closers = append(w.closers, func() { _ = os.RemoveAll(dir) })
	}
	path := filepath.Join(w.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

// close removes what was made for the run.
func (w *way) close() {
	for _, end := range w.closers {
		end()
	}
}

// environment is what the run is told.
func (w *way) environment() []string {
	env := append(w.env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(w.config)))
	for i, kv := range w.config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// remote has the program talk to the server, which is its remote "origin".
func (j *job) remote(r run) ([]byte, error) {
	if err := j.h.opt.Budget.Spend(j.ctx, j.repo, git.Cost{Reads: 1}); err != nil {
		return nil, err
	}
	w, err := j.way()
	if w != nil {
		defer w.close()
	}
	if err != nil {
		return nil, err
	}
	r.env = append(r.env, w.environment()...)
	told := func() answer { return answer{} }
	if w.http {
		if told, err = overhear(&r); err != nil {
			return nil, err
		}
	}
	out, err := j.local(r)
	if err = explain(err, told()); errs.RetryAfter(err) > 0 {
		j.h.opt.Budget.Observe(j.repo, git.RateStatus{Until: time.Now().Add(errs.RetryAfter(err))})
	}
	return out, err
}

// way finds out how the server is reached.
func (j *job) way() (*way, error) {
	a, err := git.ParseURL(j.repo.URL)
	if err != nil {
		return nil, err
	}
	w := &way{env: []string{"GIT_ALLOW_PROTOCOL=" + a.Scheme}}
	if a.Scheme == "ssh" {
		return w, j.bySSH(w, a)
	}
	w.set("remote.origin.url", j.repo.URL)
	if a.Scheme == "file" {
		return w, nil
	}
	w.http = true
	return w, j.byHTTP(w, a)
}

// byHTTP gives the credential for the one server, in the environment of the run alone, and
// follows nobody elsewhere with it.
func (j *job) byHTTP(w *way, a git.Address) error {
	u, err := url.Parse(j.repo.URL)
	if err != nil {
		return errs.E(errs.Invalid, "", "", errors.New("the URL cannot be read"))
	}
	w.set("http.followRedirects", "false")
	w.set("http.lowSpeedLimit", "1")
	w.set("http.lowSpeedTime", "60")
	w.set("credential.helper", "") // forgets those before
	if j.repo.Token != "" {
		user := j.repo.User
		if user == "" {
			user = "emco"
		}
		both := base64.StdEncoding.EncodeToString([]byte(user + ":" + j.repo.Token.Reveal()))
		w.set("http."+u.Scheme+"://"+u.Host+"/.extraHeader", "Authorization: Basic "+both)
	}
	if j.repo.CA != "" {
		path, err := w.file("ca.pem", j.repo.CA)
		if err != nil {
			return err
		}
		w.set("http.sslCAInfo", path)
	}
	if proxied(u) {
		return nil // whom it dials is the proxy's to say
	}
	addr, err := j.resolve(a.Host)
	if err != nil || !addr.IsValid() {
		return err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	w.set("http.curloptResolve", a.Host+":"+port+":"+addr.String())
	return nil
}

// proxied says whether this program's environment names a proxy for an address.
func proxied(u *url.URL) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return err == nil && proxy != nil
}

// resolve returns an address of a host that may be dialled; the program is told to take that
// very one, so that a name cannot turn into another. Where whoever runs this program has
// settings for the way to servers, names that only these know are theirs: the zero address.
func (j *job) resolve(host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(j.ctx, transport.DialTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", strings.Trim(host, "[]"))
	if err != nil {
		if j.h.opt.Config != "" {
			return netip.Addr{}, nil
		}
		return netip.Addr{}, errs.E(errs.Unavailable, "", "", fmt.Errorf("host %s is not known", host))
	}
	for _, addr := range all {
		if err := j.h.opt.Admit(addr.Unmap()); err != nil {
			return netip.Addr{}, err
		}
	}
	return all[0].Unmap(), nil
}
