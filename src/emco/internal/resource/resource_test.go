package resource_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

type step = resourcetest.Step

const all = "/v2/projects"

func named(name string) string { return `{"metadata":{"name":"` + name + `"}}` }

// serve offers projects with the given habits.
func serve(t *testing.T, def resource.Def[v2.Project]) *resourcetest.Server {
	def.Kind, def.Collection, def.Item = "Project", "projects", "{project}"
	return resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { resource.Mount(r, db, def) })
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK})
	bad := []string{".", "..", ".git", "a/b", "%2e%2e", "a\\u0000b", "a\\nb", "\u202ea", "а", "\U0001f600", "a.", "-a", "a+b", strings.Repeat("x", 129)}
	for _, name := range bad {
		s.Run(t, step{Do: "POST " + all, Body: named(name), Status: 400, Text: "- metadata.name: \""})
		if name = url.PathEscape(name); len(name) < 100 {
			s.Run(t, step{Do: "PUT " + all + "/" + name, Body: `{}`, Status: 400})
			s.Run(t, step{Do: "DELETE " + all + "/" + name, Status: 400})
		}
	}
	s.Run(t,
		step{Do: "POST " + all, Body: named(strings.Repeat("x", 128)), Status: 201},
		step{Do: "POST " + all, Body: named("CON"), Status: 201},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"a"},"Metadata":{"name":"b"}}`, Status: 400, Text: "- Metadata: given twice"},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`, Status: 413},
		step{Do: "POST " + all, Body: strings.Repeat("[", 5000), Status: 422, Text: "deeper"},
		step{Do: "POST " + all, Header: "Content-Type: multipart/form-data; boundary=b", Body: "--b--\r\n", Status: 422, Text: "this document has no file; send it as application/json"},
		step{Do: "POST " + all, Body: named("a"), Header: "Accept: application/problem+json", Status: 201},
		step{Do: "POST " + all, Body: named("a"), Header: "Accept: application/problem+json", Status: 409, Text: `"type":"urn:emco:error:exists"`},
	)
}

func TestPutAnswers(t *testing.T) {
	t.Parallel()
	cases := []struct {
		put              resource.Put
		created, changed int
	}{
		{resource.PutOK, 200, 200}, {resource.PutCreated, 201, 201}, {resource.PutUpsert, 201, 200}, {resource.NoPut, 405, 405},
	}
	for _, c := range cases {
		serve(t, resource.Def[v2.Project]{Put: c.put}).Run(t,
			step{Do: "PUT " + all + "/a", Body: named("a"), Status: c.created},
			step{Do: "PUT " + all + "/a", Body: `{"metadata":{"name":"a","userData1":"x"}}`, Status: c.changed},
		)
	}
}

func TestConditionalWrites(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK})
	tag := s.Run(t, step{Do: "POST " + all, Body: named("a"), Status: 201}).Header.Get("ETag")
	other := `{"metadata":{"name":"a","userData1":"x"}}`
	if again := s.Run(t, step{Do: "PUT " + all + "/a", Body: named("a"), Status: 200}); again.Header.Get("ETag") != tag {
		t.Error("a PUT that changes nothing made a new revision")
	}
	s.Run(t,
		step{Do: "PUT " + all + "/a", Body: other, Header: "If-Match: " + tag, Status: 200},
		step{Do: "PUT " + all + "/a", Body: named("a"), Header: "If-Match: " + tag, Status: 412, Text: "read it again"},
		step{Do: "DELETE " + all + "/a", Header: "If-Match: " + tag, Status: 412},
		step{Do: "PUT " + all + "/b", Body: named("b"), Header: "If-Match: *", Status: 412},
		step{Do: "DELETE " + all + "/a", Header: "If-Match: *", Status: 204},
		step{Do: "POST " + all, Body: named("a"), Status: 201},
		step{Do: "PUT " + all + "/a", Body: other, Header: "If-Match: " + tag, Status: 412},
	)
}

// The document changes after its revision was compared, and before it is written.
func TestAConditionalWriteThatLosesARace(t *testing.T) {
	t.Parallel()
	other := func(value string) string { return `{"metadata":{"name":"a","userData1":"` + value + `"}}` }
	for name, c := range map[string]struct {
		match string // empty: the revision that was read
		want  int
	}{"a revision": {"", 412}, "any revision": {"*", 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *resourcetest.Server
			raced := false
			s = serve(t, resource.Def[v2.Project]{Put: resource.PutOK, Guards: resource.Guards{Replace: func(context.Context, store.Doc) error {
				if !raced {
					raced = true
					s.Run(t, step{Do: "PUT " + all + "/a", Body: other("faster"), Status: 200})
				}
				return nil
			}}})
			tag := s.Run(t, step{Do: "POST " + all, Body: named("a"), Status: 201}).Header.Get("ETag")
			s.Run(t, step{Do: "PUT " + all + "/a", Body: other("slower"), Header: "If-Match: " + cmp.Or(c.match, tag), Status: c.want})
			if !raced {
				t.Error("nothing raced")
			}
		})
	}
}

func TestListsPageInOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{})
	for _, i := range []int{3, 1, 4, 0, 2} {
		s.Run(t, step{Do: "POST " + all, Body: named(fmt.Sprintf("p%d", i)), Status: 201})
	}
	var got []string
	next := ""
	for range 3 {
		a := s.Run(t, step{Do: "GET " + all + "?limit=2&continue=" + next, Status: 200})
		page, err := v2.Decode[page]([]byte(`{"items":`+a.Body+`}`), v2.Lenient)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Items {
			got = append(got, p.Metadata.Name)
		}
		next = a.Header.Get(web.HeaderContinue)
	}
	if want := "[p0 p1 p2 p3 p4]"; fmt.Sprint(got) != want || next != "" {
		t.Errorf("pages hold %v and end with %q, want %v", got, next, want)
	}
	s.Run(t,
		step{Do: "GET " + all + "?limit=0", Status: 400},
		step{Do: "GET " + all + "?limit=x", Status: 400},
		step{Do: "GET " + all + "?continue=%21", Status: 400},
	)
}

type page struct {
	Items []v2.Project `json:"items"`
}

// Writers that name no revision all succeed; the guard is asked for each change.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK, Guards: resource.Guards{
		Replace: func(context.Context, store.Doc) error { asked.Add(1); return nil },
	}})
	s.Run(t, step{Do: "POST " + all, Body: named("a"), Status: 201})
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			a := s.Do(t, step{Do: "PUT " + all + "/a", Body: fmt.Sprintf(`{"metadata":{"name":"a","userData1":"%d"}}`, i)})
			if a.Status != 200 {
				return fmt.Errorf("PUT = %d %s", a.Status, a.Body)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if asked.Load() < 4 {
		t.Errorf("the guard was asked %d times, want at least 4", asked.Load())
	}
}

func TestDeleteAsksBeforeItDestroys(t *testing.T) {
	t.Parallel()
	var deny, destroyed atomic.Bool
	s := serve(t, resource.Def[v2.Project]{Guards: resource.Guards{
		Delete: func(context.Context, store.Doc) error {
			if deny.Load() {
				return errs.New(errs.Conflict, "still running")
			}
			return nil
		},
		Deleted: func(context.Context, store.Doc) error { destroyed.Store(true); return nil },
	}})
	s.Run(t, step{Do: "POST " + all, Body: named("a"), Status: 201})
	if _, err := s.DB.Create(t.Context(), store.Write{Key: "projects/a/x/y", Parent: "projects/a"}); err != nil {
		t.Fatal(err)
	}
	s.Run(t, step{Do: "DELETE " + all + "/a", Status: 409, Text: "child references first: projects/a/x/y"})
	if err := s.DB.Delete(t.Context(), "projects/a/x/y", nil); err != nil {
		t.Fatal(err)
	}
	deny.Store(true)
	s.Run(t, step{Do: "DELETE " + all + "/a", Status: 409, Text: "=still running"})
	if destroyed.Load() {
		t.Fatal("a document that stays lost what belongs to it")
	}
	deny.Store(false)
	s.Run(t, step{Do: "DELETE " + all + "/a", Status: 204})
	if !destroyed.Load() {
		t.Error("what belongs to the document was left")
	}
}

// Two documents with one unique key never both stay, whichever comes first.
func TestUniqueKeysThatRace(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{
		Unique: func(_ resource.Place, p v2.Project) resource.UniqueKey { return resource.UniqueName(p.Metadata.Name) },
	})
	for range 20 {
		var group errgroup.Group
		var stored atomic.Int32
		for _, name := range []string{"a-b", "A-b", "a_B"} {
			group.Go(func() error {
				if a := s.Do(t, step{Do: "POST " + all, Body: named(name)}); a.Status == http.StatusCreated {
					stored.Add(1)
				}
				return nil
			})
		}
		_ = group.Wait()
		if stored.Load() > 1 {
			t.Fatalf("%d documents have one unique key", stored.Load())
		}
		for _, name := range []string{"a-b", "A-b", "a_B"} {
			s.Do(t, step{Do: "DELETE " + all + "/" + name})
		}
	}
}

// A collection never keeps more documents than it may have, also if they come at once. Those that are there may change.
func TestABoundOfDocumentsThatRace(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{AtMost: 3, Put: resource.PutOK})
	for _, name := range []string{"a", "b"} {
		s.Run(t, step{Do: "POST " + all, Body: named(name), Status: 201})
	}
	for range 20 {
		var group errgroup.Group
		for _, name := range []string{"c", "d", "e"} {
			group.Go(func() error {
				s.Do(t, step{Do: "POST " + all, Body: named(name)})
				return nil
			})
		}
		_ = group.Wait()
		if text := s.Run(t, step{Do: "GET " + all, Status: 200}).Body; strings.Count(text, `"name"`) > 3 {
			t.Fatalf("the collection has more than 3 documents: %s", text)
		}
		for _, name := range []string{"c", "d", "e"} {
			s.Do(t, step{Do: "DELETE " + all + "/" + name})
		}
	}
	s.Run(t,
		step{Do: "POST " + all, Body: named("c"), Status: 201},
		step{Do: "POST " + all, Body: named("d"), Status: 409, Text: "projects has 3 documents, and at most 3 are allowed; remove some"},
		step{Do: "POST " + all, Body: named("c"), Status: 409, Text: "already exists"},
		step{Do: "PUT " + all + "/c", Body: named("c"), Status: 200},
	)
}

func TestMultipartBodies(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		resource.Mount(r, db, resource.Def[v2.Project]{
			Kind: "Project", Collection: "projects", Item: "{project}", File: &resource.File[v2.Project]{Limit: 100},
		})
	})
	part := func(name, text string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	meta, file := part("metadata", named("a")), part("file", "x")
	cases := []struct {
		name, body string
		status     int
		text       string
	}{
		{"no file", meta + "--b--\r\n", 422, `Unable to process file: send multipart/form-data with the document as part "metadata" and its file as part "file"`},
		{"no metadata", file + "--b--\r\n", 400, `no part "metadata"`},
		{"two files", file + file + meta + "--b--\r\n", 400, "given twice"},
		{"no end", meta + file, 422, ""},
		{"many parts", strings.Repeat(part("x", ""), 100) + "--b--\r\n", 400, "parts"},
		{"a large file", meta + part("file", strings.Repeat("x", 101)) + "--b--\r\n", 413, "100 bytes"},
		{"large metadata", part("metadata", strings.Repeat("x", 2<<20)) + "--b--\r\n", 413, ""},
		{"the file first", file + part("other", "y") + meta + "--b--\r\n", 201, `"name":"a"`},
	}
	for _, c := range cases {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+all, bytes.NewReader([]byte(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		a := s.Send(t, req)
		if a.Status != c.status || !strings.Contains(a.Body, c.text) {
			t.Errorf("%s: got %d %q, want %d %q", c.name, a.Status, a.Body, c.status, c.text)
		}
	}
}
