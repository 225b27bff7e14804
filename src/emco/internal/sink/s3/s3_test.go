package s3_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3/s3test"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	bucket = "fleet"
	prefix = "edge/north/"
	root   = "clusters/edge+c1"
)

// server is a real S3 server behind a door that counts, and may be broken.
type server struct {
	*testing.T
	inner *s3test.Server
	repo  git.Repo
	p     *s3.Publisher
	fence batch.Fence

	mu     sync.Mutex
	calls  []string
	broken func(w http.ResponseWriter, r *http.Request) bool // answers itself
}

func serve(t *testing.T, tls bool, flags ...string) *server {
	t.Helper()
	s := &server{T: t, inner: s3test.Start(t, flags...), p: s3.New(s3.Options{Timeout: 10 * time.Second})}
	s.inner.Make(bucket)
	to, err := url.Parse(s.inner.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.admit(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	if tls {
		web.StartTLS()
		s.repo.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	} else {
		web.Start()
	}
	t.Cleanup(web.Close)
	s.repo.URL, s.repo.API = web.URL+"/"+bucket+"/"+strings.TrimSuffix(prefix, "/"), web.URL+"?region="+s3test.Region
	s.repo.User, s.repo.Token = s3test.AccessKey, s3test.SecretKey
	return s
}

// admit is the door.
func (s *server) admit(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/"+bucket+"/"+prefix+root+"/"))
	return s.broken == nil || !s.broken(w, r)
}

func (s *server) breaks(how func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = how
}

// answers breaks requests of a method, "" for all.
func (s *server) answers(method string, status int, code string) {
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if method != "" && r.Method != method {
			return false
		}
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>about %s</Message></Error>`, code, s3test.SecretKey)
		}
		return true
	})
}

// took returns the requests since the last time.
func (s *server) took() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, s.calls = s.calls, nil
	return out
}

func (s *server) try(edits ...git.Edit) (git.Hash, error) {
	return s.p.Submit(s.Context(), batch.Job{Repo: s.repo, Edits: edits, Fence: s.fence})
}

func (s *server) publish(edits ...git.Edit) git.Hash {
	s.Helper()
	id, err := s.try(edits...)
	if err != nil {
		s.Fatalf("Submit: %v", err)
	}
	return id
}

// holds checks the keys of the bucket, without what is always there.
func (s *server) holds(want ...string) {
	s.Helper()
	for i := range want {
		want[i] = prefix + root + "/" + want[i]
	}
	want = append(want, prefix+root+"/emco.yaml")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(s.inner.Read(bucket, prefix+root+"/"))); !slices.Equal(got, want) {
		s.Errorf("the bucket holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func dir(deployment string, files map[string]string) git.Edit {
	e := git.Edit{Path: root + "/context/" + deployment}
	for name, text := range files {
		if e.Dir == nil {
			e.Dir = map[string][]byte{}
		}
		e.Dir[name] = []byte(text)
	}
	return e
}

func kust(deployment, text string) git.Edit {
	e := git.Edit{Path: root + "/kust" + deployment + ".yaml"}
	if text != "" {
		e.File = []byte(text)
	}
	return e
}

func TestPublishedFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	first := s.publish(dir("7", map[string]string{"app/web/a+ConfigMap.yaml": "a", "app/web/b ü.yaml": "b"}), kust("7", "k"))
	s.holds("context/7/app/web/a+ConfigMap.yaml", "context/7/app/web/b ü.yaml", "kust7.yaml")
	if got := s.inner.Read(bucket, prefix)[prefix+root+"/kust7.yaml"].Text; got != "k" {
		t.Errorf("the object holds %q", got)
	}
	s.publish(dir("8", map[string]string{"app/db/c.yaml": "c"})) // another deployment leaves it alone
	s.holds("context/7/app/web/a+ConfigMap.yaml", "context/7/app/web/b ü.yaml", "context/8/app/db/c.yaml", "kust7.yaml")
	if again := s.publish(dir("8", nil)); again != first {
		t.Errorf("the same objects have digest %s, and had %s", again, first)
	}
	s.publish(dir("7", nil), kust("7", ""))
	s.holds()
}

// The revision is what Flux's source controller makes of the keys and ETags that it lists.
func TestTheRevisionEqualsThatOfFlux(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	got := s.publish(dir("7", map[string]string{"app/web/a.yaml": "a", "app/web/b.yaml": "b"}), kust("7", "k"))
	sum := sha256.New()
	there := s.inner.Read(bucket, prefix+root+"/")
	for _, key := range slices.Sorted(maps.Keys(there)) {
		fmt.Fprintf(sum, "%s %s\n", key, there[key].ETag)
	}
	if want := git.Hash("sha256:" + hex.EncodeToString(sum.Sum(nil))); got != want {
		t.Errorf("the revision is %s, want %s", got, want)
	}
}

func TestOnlyWhatDiffersIsSent(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	files := map[string]string{"app/web/a.yaml": "a", "app/web/b.yaml": "b", "app/web/empty.yaml": ""}
	s.publish(dir("7", files), kust("7", "k"))
	s.took()
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 1 {
		t.Errorf("nothing to do took %v, want one listing", got)
	}
	files["app/web/b.yaml"] = "changed"
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 2 || got[1] != "PUT context/7/app/web/b.yaml" {
		t.Errorf("one change took %v, want a listing and a PUT", got)
	}
}

// Some servers make ETags of something else than the MD5 of the content.
func TestOnlyWhatDiffersIsSentWithAnyETags(t *testing.T) {
	t.Parallel()
	s := serve(t, false, "--data-integrity-etag")
	files := map[string]string{"app/web/a.yaml": "a", "app/web/b.yaml": "b"}
	s.publish(dir("7", files), kust("7", "k"))
	s.took()
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 1 {
		t.Errorf("nothing to do took %v, want one listing", got)
	}
	s.inner.Put(bucket, prefix+root+"/context/7/app/web/a.yaml", "meddled with")
	files["app/web/b.yaml"] = "changed"
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 3 {
		t.Errorf("two changes took %v, want a listing and two PUTs", got)
	}
	if got := s.inner.Read(bucket, prefix)[prefix+root+"/context/7/app/web/a.yaml"].Text; got != "a" {
		t.Errorf("what was meddled with is %q", got)
	}
	s.p = s3.New(s3.Options{Timeout: 10 * time.Second}) // the program restarts
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 5 {
		t.Errorf("a new program took %v, want a listing and all objects once", got)
	}
}

func TestObjectsOfOthersStay(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.inner.Put(bucket, prefix+root+"/mine.yaml", "x")
	s.inner.Put(bucket, prefix+"clusters/edge+c10/kust7.yaml", "x")
	s.inner.Put(bucket, "README", "x")
	s.inner.Put(bucket, prefix+root+"/context/7/app/gone.yaml", "x") // this is the deployment's
	s.publish(dir("7", map[string]string{"app/web/a.yaml": "a"}))
	s.holds("context/7/app/web/a.yaml", "mine.yaml")
	if got := len(s.inner.Read(bucket, "")); got != 5 {
		t.Errorf("the bucket holds %d objects, want 5", got)
	}
}

// At no moment does something point at files that are not there.
func TestPointersAreWrittenAfterFilesAndRemovedBeforeThem(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.publish(dir("7", map[string]string{"app/a.yaml": "a", "app/b.yaml": "b"}), kust("7", "k"))
	inOrder(t, s.took(), "GET", "PUT context/7/app/", "PUT kust7.yaml")
	s.publish(dir("7", map[string]string{"app/c.yaml": "c"}), kust("7", "other"))
	inOrder(t, s.took(), "PUT context/7/app/c.yaml", "PUT kust7.yaml", "DELETE context/7/app/")
	s.publish(dir("7", nil), kust("7", ""))
	inOrder(t, s.took(), "GET", "DELETE kust7.yaml", "DELETE context/7/app/c.yaml")
}

// inOrder requires that the last of each comes before the first of the next.
func inOrder(t *testing.T, calls []string, begins ...string) {
	t.Helper()
	last := -1
	for _, begin := range begins {
		first := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, begin) })
		if first <= last {
			t.Fatalf("%q is not after the others in %v", begin, calls)
		}
		for i, c := range calls {
			if strings.HasPrefix(c, begin) {
				last = i
			}
		}
	}
}

func TestAFailureLeavesPointersAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.publish(dir("7", map[string]string{"app/a.yaml": "a"}), kust("7", "k"))
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/b.yaml") {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	next := []git.Edit{dir("7", map[string]string{"app/b.yaml": "b"}), kust("7", "other")}
	if _, err := s.try(next...); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a failed PUT = %v, want Unavailable", err)
	}
	s.holds("context/7/app/a.yaml", "kust7.yaml")
	if got := s.inner.Read(bucket, prefix)[prefix+root+"/kust7.yaml"].Text; got != "k" {
		t.Errorf("the pointer is %q already", got)
	}
	s.breaks(nil)
	s.publish(next...)
	s.holds("context/7/app/b.yaml", "kust7.yaml")
}

func TestTheFenceIsCheckedBeforeFilesAndBeforePointers(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.publish(dir("7", map[string]string{"app/a.yaml": "a"}), kust("7", "k"))
	next := []git.Edit{dir("7", map[string]string{"app/b.yaml": "b"}), kust("7", "other")}
	for asked, want := range [][]string{
		{"context/7/app/a.yaml", "kust7.yaml"},
		{"context/7/app/a.yaml", "context/7/app/b.yaml", "kust7.yaml"},
	} {
		left := asked
		s.fence.Check = func(context.Context) error {
			if left--; left < 0 {
				return errs.E(errs.Conflict, "write", "shard", errors.New("lost"))
			}
			return nil
		}
		if _, err := s.try(next...); !errs.Is(err, errs.Conflict) {
			t.Errorf("Submit after the work was taken over = %v, want Conflict", err)
		}
		s.holds(want...)
		if got := s.inner.Read(bucket, prefix)[prefix+root+"/kust7.yaml"].Text; got != "k" {
			t.Errorf("the pointer is %q already", got)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for name, c := range map[string]struct {
		change func(*git.Repo)
		want   errs.Kind
		text   string
	}{
		"wrong secret":   {func(r *git.Repo) { r.Token = "planted-wrong" }, errs.Unauthorized, "accessKey, secretKey"},
		"unknown key":    {func(r *git.Repo) { r.User = "planted-nobody" }, errs.Unauthorized, "accessKey"},
		"no such bucket": {func(r *git.Repo) { r.URL = strings.Replace(r.URL, bucket, "other", 1) }, errs.NotFound, "create bucket other"},
		"other region":   {func(r *git.Repo) { r.API = strings.Replace(r.API, "us-east-1", "mars", 1) }, errs.Invalid, "region"},
		"without TLS":    {func(r *git.Repo) { r.URL = "http://s3.example.org/fleet" }, errs.Invalid, "s3.plainHTTP"},
		"link-local":     {func(r *git.Repo) { r.URL = "https://169.254.169.254/fleet" }, errs.Forbidden, "169.254.169.254"},
		"no listener":    {func(r *git.Repo) { r.URL = "https://127.0.0.1:1/fleet" }, errs.Unavailable, "127.0.0.1:1"},
		"no certificate": {func(r *git.Repo) { r.CA = "none" }, errs.Invalid, "PEM"},
	} {
		r := s.repo
		c.change(&r)
		_, err := s.p.Submit(t.Context(), batch.Job{Repo: r, Edits: []git.Edit{kust("7", "k")}})
		if !errs.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.text)
		}
	}
	_, err := s.try(kust("7", "k"), git.Edit{Path: "clusters/edge+c2/kust7.yaml"})
	if !errs.Is(err, errs.Internal) {
		t.Errorf("edits of two clusters = %v, want Internal", err)
	}
}

func TestAnswersAreClassified(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for _, c := range []struct {
		status int
		code   string
		want   errs.Kind
	}{
		{403, "AccessDenied", errs.Forbidden},
		{403, "RequestTimeTooSkewed", errs.Unauthorized},
		{404, "NoSuchBucket", errs.NotFound},
		{429, "", errs.Throttled},
		{503, "SlowDown", errs.Throttled},
		{503, "ServiceUnavailable", errs.Unavailable},
		{500, "InternalError", errs.Unavailable},
	} {
		for _, method := range []string{"GET", "PUT"} {
			s.answers(method, c.status, c.code)
			s.took()
			_, err := s.try(kust("7", "k"))
			if !errs.Is(err, c.want) || strings.Contains(err.Error(), "planted") {
				t.Errorf("%s answered with %d %s = %v, want %v", method, c.status, c.code, err, c.want)
			}
			if got := len(s.took()); got > 2 {
				t.Errorf("%s answered with %d %s was tried again: %d requests", method, c.status, c.code, got)
			}
			if after := errs.RetryAfter(err); after != 0 {
				t.Errorf("%d %s is left alone for %s, without a delay in the answer", c.status, c.code, after)
			}
		}
	}
}

func TestRetryAfterIsRespected(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	_, err := s.try(kust("7", "k"))
	if !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != 7*time.Second || len(s.took()) != 1 {
		t.Errorf("got %v, after %s; want Throttled for 7 s, at once", err, errs.RetryAfter(err))
	}
}

// The target of a redirect receives nothing.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 307, 308} {
		s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
			return true
		})
		if _, err := s.try(kust("7", "k")); !errs.Is(err, errs.Invalid) {
			t.Errorf("a redirect by %d = %v, want Invalid", status, err)
		}
	}
}

func TestAddressesAreAdmitted(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	p := s3.New(s3.Options{Timeout: time.Second, Admit: func(netip.Addr) error {
		return errs.New(errs.Forbidden, "private addresses are not allowed")
	}})
	if _, err := p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{kust("7", "k")}}); !errs.Is(err, errs.Forbidden) {
		t.Errorf("an address that is not admitted = %v, want Forbidden", err)
	}
	if got := s.took(); len(got) > 0 {
		t.Errorf("it was asked: %v", got)
	}
}

func TestAStuckServerTimesOut(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.p = s3.New(s3.Options{Timeout: 50 * time.Millisecond})
	done := make(chan struct{})
	s.Cleanup(func() { close(done) })
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	t.Cleanup(web.Close)
	s.repo.URL = web.URL + "/" + bucket
	if _, err := s.try(kust("7", "k")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a server that does not answer = %v, want Unavailable", err)
	}
}

func TestManyObjectsAreListedInPages(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	files := map[string]string{}
	for i := range 1100 { // a page has 1000
		files[fmt.Sprintf("app/web/%04d.yaml", i)] = fmt.Sprint(i)
	}
	s.publish(dir("7", files), kust("7", "k"))
	s.took()
	s.publish(dir("7", files), kust("7", "k"))
	if got := s.took(); len(got) != 2 {
		t.Errorf("nothing to do took %d requests, want two pages", len(got))
	}
}
