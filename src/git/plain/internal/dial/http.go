package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// httpConversation speaks the stateless form of the protocol: GET the advertisement,
// POST the request.
type httpConversation struct {
	client  *http.Client
	repo    git.Repo
	base    string
	service string
	replies []io.Closer
	first   io.Reader
}

func (d *Dialer) dialHTTP(ctx context.Context, r git.Repo, service string) (Conversation, error) {
	client, err := d.Clients.Get(r)
	if err != nil {
		return nil, err
	}
	s := &httpConversation{client: client, repo: r, base: strings.TrimRight(r.URL, "/"), service: service}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/info/refs?service="+service, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(req, "advertisement")
	if err != nil {
		return nil, err
	}
	moved := *resp.Request.URL
	moved.RawQuery = ""
	s.base = strings.TrimSuffix(moved.String(), "/info/refs")
	s.first = buffered(resp.Body)
	return s, nil
}

// Resume returns a conversation with a service whose advertisement was read before, by a conversation with that endpoint. It sends
// nothing yet.
func (d *Dialer) Resume(r git.Repo, endpoint, service string) (Conversation, error) {
	client, err := d.Clients.Get(r)
	if err != nil {
		return nil, err
	}
	return &httpConversation{client: client, repo: r, base: endpoint, service: service, first: strings.NewReader("")}, nil
}

func (s *httpConversation) Advert() io.Reader { return s.first }

func (s *httpConversation) Exchange(ctx context.Context, body io.Reader, size int64) (io.Reader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/"+s.service, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/x-"+s.service+"-request")
	req.Header.Set("Accept", "application/x-"+s.service+"-result")
	resp, err := s.do(req, "result")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// do sends a request with the credentials and checks that Git answers.
func (s *httpConversation) do(req *http.Request, what string) (*http.Response, error) {
	req.Header.Set("User-Agent", "emco")
	if s.repo.Token != "" {
		user := s.repo.User
		if user == "" {
			user = "emco"
		}
		req.SetBasicAuth(user, s.repo.Token.Reveal())
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	s.replies = append(s.replies, resp.Body)
	if err := checkStatus(resp); err != nil {
		s.Close(true)
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-"+s.service+"-"+what {
		s.Close(false)
		return nil, errs.E(errs.Unavailable, s.service, "", errors.New("the answer is not Git's; is the URL that of a repository, and is there a login page or a proxy before it?"))
	}
	return resp, nil
}

func (s *httpConversation) Endpoint() string { return s.base }

func (s *httpConversation) Explain(err error) error { return err }

func (s *httpConversation) Close(clean bool) {
	for _, reply := range s.replies {
		if r, ok := reply.(io.Reader); ok && clean {
			_, _ = io.CopyN(io.Discard, r, 64<<10) // lets the connection be used again
		}
		_ = reply.Close()
	}
	s.replies = nil
}

// checkStatus refuses all answers but OK. The body is a page for people and is not shown, except
// short plain text.
func checkStatus(resp *http.Response) error {
	code := resp.StatusCode
	if code == http.StatusOK {
		return nil
	}
	cause := fmt.Errorf("the server answers %d %s%s", code, http.StatusText(code), plainText(resp))
	return transport.StatusError(code, resp.Header.Get("Retry-After"), cause)
}

func plainText(resp *http.Response) string {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}
