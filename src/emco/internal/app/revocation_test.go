package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
)

const autumn = till + "/deployment-intent-groups/autumn"

// follow opens a stream as the holder of a token; the channel is closed at its end.
func (g *guardedStage) follow(token, path string) (ended <-chan struct{}) {
	g.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.Context()), patience)
	g.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.address+"/v2/"+path, nil)
	g.must("make a request", err)
	r.Header.Set("Authorization", "Bearer "+token)
	return g.drain(r)
}

// drain sends a request, and reads its answer until the end; then the channel is closed.
func (g *guardedStage) drain(r *http.Request) (ended <-chan struct{}) {
	g.Helper()
	path := r.URL.Path
	r.Header.Set("Last-Event-ID", "0") // else server-sent events begin with the next change
	a, err := http.DefaultClient.Do(r)
	g.must("follow "+path, err)
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		g.Fatalf("follow %s: %d %s", path, a.StatusCode, text)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.Body.Close()
		_, _ = io.Copy(io.Discard, a.Body)
	}()
	return done
}

// notify follows the group by gRPC as the holder of a token; the channel receives how it ends.
func (g *guardedStage) notify(token, client string) (ended <-chan codes.Code) {
	g.Helper()
	conn, err := grpc.NewClient(g.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.must("connect", err)
	g.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.Context()), patience)
	g.Cleanup(cancel)
	stream, err := pb.NewStatusNotifyClient(conn).StatusRegister(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), &pb.StatusRegistration{
		ClientId: client, StatusType: pb.StatusRegistration_DEPLOYED,
		Key: &pb.StatusRegistration_DigKey{DigKey: &pb.DigKey{Project: "shop", CompositeApp: "till", CompositeAppVersion: "v1", DeploymentIntentGroup: "autumn"}},
	})
	g.must("register", err)
	if _, err := stream.Recv(); err != nil {
		g.Fatalf("the first notification: %v", err)
	}
	done := make(chan codes.Code, 1)
	go func() {
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		done <- status.Code(err)
	}()
	return done
}

// S-17: what is revoked in one process is refused in the other, and its open streams end there: the status of a
// group, its events, server-sent events, and gRPC.
func TestS17RevocationsReachAllProcesses(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	key := config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	a := newGuardedStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Key = etcd.Endpoints(), key })
	root := a.company()
	b := &guardedStage{op: a.op, testStage: a.beside(func(*config.Config) {})}
	b.start()
	t.Cleanup(b.stop)
	root.expect(201, "POST", till+"/composite-profiles", named("small"))
	root.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	root.expect(202, "POST", autumn+"/approve", "") // its events have a line
	root.expect(201, "POST", "roles", `{"metadata":{"name":"reader"},"spec":{"rules":[{"verbs":["get","list"],"types":["*"]}]}}`)
	token := func(name string) string {
		var made v2.NewAPIToken
		text := root.expect(201, "POST", "tokens", strings.Replace(tokenDocument(name), `"role":"viewer"`, `"role":"viewer","place":"projects/shop"`, 1))
		a.must("read the token", json.Unmarshal([]byte(text), &made))
		return made.Token
	}
	bind := func(name, role string) string {
		root.expect(201, "POST", "projects/shop/role-bindings", binding(name, role, "user:corp:"+name))
		return a.op.Token(t, map[string]any{"aud": "emco-api", "sub": name})
	}
	for name, c := range map[string]struct {
		token  string
		revoke func()
		want   codes.Code
	}{
		"token":   {token("token"), func() { root.expect(204, "DELETE", "tokens/token", "") }, codes.Unauthenticated},
		"binding": {bind("binding", "viewer"), func() { root.expect(204, "DELETE", "projects/shop/role-bindings/binding", "") }, codes.NotFound},
		"denial": {bind("denial", "viewer"), func() {
			root.expect(201, "POST", "projects/shop/role-bindings", `{"metadata":{"name":"no"},"spec":{"role":"viewer","subjects":["user:corp:denial"],"deny":true}}`)
		}, codes.NotFound},
		"role": {bind("role", "reader"), func() {
			root.expect(200, "PUT", "roles/reader", `{"metadata":{"name":"reader"},"spec":{"rules":[{"verbs":["get"],"types":["projects"]}]}}`)
		}, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			at := *b
			at.testStage = b.with(c.token)
			at.T = t
			at.eventually("the other process knows the caller", func() string {
				return unless(at.do("GET", autumn, "").Status, 200)
			})
			streams := map[string]<-chan struct{}{}
			for _, path := range []string{autumn + "/status?watch=true", autumn + "/events?follow=true", "views/stream?topics=group:" + autumn} {
				streams[path] = at.follow(c.token, path)
			}
			notified := at.notify(c.token, name)
			c.revoke()
			began := time.Now()
			at.eventually("the other process refuses", func() string {
				if got := at.do("GET", autumn, "").Status; got == 200 {
					return "it answers"
				}
				return ""
			})
			refused := time.Since(began)
			for path, ended := range streams {
				select {
				case <-ended:
				case <-time.After(patience):
					t.Errorf("%s goes on", path)
				}
			}
			select {
			case got := <-notified:
				if got != c.want {
					t.Errorf("gRPC ends with %s, want %s", got, c.want)
				}
			case <-time.After(patience):
				t.Error("gRPC goes on")
			}
			t.Logf("refused after %s, all streams ended after %s", refused, time.Since(began))
		})
	}
}

// A project takes its bindings with it, and its tokens go first: whoever makes a project of the same name gives
// the former users nothing.
func TestS17AProjectOfTheSameNameIsAnother(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	root.expect(201, "POST", "projects", named("pop"))
	root.expect(201, "POST", "projects/pop/role-bindings", binding("team", "deployer", "user:corp:dev"))
	var made v2.NewAPIToken
	text := root.expect(201, "POST", "tokens", strings.Replace(tokenDocument("ci"), `"role":"viewer"`, `"role":"viewer","place":"projects/pop"`, 1))
	g.must("read the token", json.Unmarshal([]byte(text), &made))
	dev, ci := g.user("dev"), g.with(made.Token)
	dev.expect(200, "GET", "projects/pop", "")
	ci.expect(200, "GET", "projects/pop", "")
	for _, first := range []string{"projects/pop/role-bindings/team", "tokens/ci"} {
		if a := root.do("DELETE", "projects/pop", ""); a.Status != 409 {
			t.Fatalf("the project goes before %s: %d %s", first, a.Status, a.Body)
		}
		root.expect(204, "DELETE", first, "")
	}
	root.expect(204, "DELETE", "projects/pop", "")
	root.expect(201, "POST", "projects", named("pop"))
	dev.expect(404, "GET", "projects/pop", "")
	ci.expect(401, "GET", "projects/pop", "")
	root.expect(400, "POST", "tokens", strings.Replace(tokenDocument("lost"), `"role":"viewer"`, `"role":"viewer","place":"projects/none"`, 1))
}
