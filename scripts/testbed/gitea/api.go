package gitea

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// userLogin is a name and a password.
type userLogin struct{ name, password string }

// CreateUser creates a user and returns a token with the given scopes, such as "write:repository".
func (g *Gitea) CreateUser(ctx context.Context, name string, scopes ...string) (token string, err error) {
	user := userLogin{name, rand.Text()}
	err = g.call(ctx, g.admin, apiRequest{http.MethodPost, "/admin/users", jsonObject{
		"username": name, "password": user.password, "email": mail(name), "must_change_password": false,
	}}, nil)
	if err != nil {
		return "", err
	}
	var made struct {
		SHA1 string `json:"sha1"`
	}
	err = g.call(ctx, user, apiRequest{http.MethodPost, "/users/" + name + "/tokens", jsonObject{"name": rand.Text(), "scopes": scopes}}, &made)
	return made.SHA1, err
}

// CreateRepo creates an empty private repository with the default branch main.
func (g *Gitea) CreateRepo(ctx context.Context, owner, repo string) error {
	return g.call(ctx, g.admin, apiRequest{http.MethodPost, "/admin/users/" + owner + "/repos", jsonObject{
		"name": repo, "private": true, "default_branch": "main",
	}}, nil)
}

// Share gives a user a permission, "read" or "write", in another user's repository.
func (g *Gitea) Share(ctx context.Context, owner, repo, user, permission string) error {
	return g.call(ctx, g.admin, apiRequest{http.MethodPut, "/repos/" + owner + "/" + repo + "/collaborators/" + user, jsonObject{"permission": permission}}, nil)
}

// Protect forbids all pushes to the branches of a pattern.
func (g *Gitea) Protect(ctx context.Context, owner, repo, pattern string) error {
	return g.call(ctx, g.admin, apiRequest{http.MethodPost, "/repos/" + owner + "/" + repo + "/branch_protections", jsonObject{
		"rule_name": pattern, "enable_push": false,
	}}, nil)
}

// CommitFile commits a new file to a branch as the administrator, as people do in the web interface.
func (g *Gitea) CommitFile(ctx context.Context, owner, repo, branch, path, content string) error {
	return g.call(ctx, g.admin, apiRequest{http.MethodPost, "/repos/" + owner + "/" + repo + "/contents/" + path, jsonObject{
		"branch": branch, "message": "foreign", "content": base64.StdEncoding.EncodeToString([]byte(content)),
	}}, nil)
}

// jsonObject is a JSON object to send.
type jsonObject map[string]any

// apiRequest is a call of the API, below /api/v1.
type apiRequest struct {
	method, path string
	in           jsonObject
}

func (g *Gitea) get(ctx context.Context, path string) error {
	return g.call(ctx, g.admin, apiRequest{http.MethodGet, path, nil}, nil)
}

// call makes a request as a user and reads the answer into out, which may be nil.
func (g *Gitea) call(ctx context.Context, who userLogin, r apiRequest, out any) error {
	body, err := json.Marshal(r.in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, g.url+"/api/v1"+r.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth(who.name, who.password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.400s", r.method, r.path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
