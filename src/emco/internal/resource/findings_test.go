package resource_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// documents returns all stored documents, with their revisions.
func documents(t *testing.T, db *store.DB) string {
	t.Helper()
	var out []string
	for doc, err := range db.List(t.Context(), "", store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(doc.Key)+" "+doc.UID+" "+string(doc.Body))
	}
	return strings.Join(out, "\n")
}

func TestF13ADryRunChecksAndChangesNothing(t *testing.T) {
	t.Parallel()
	deleted := false
	s := serve(t, resource.Def[v2.Project]{
		Put:    resource.PutUpsert,
		Unique: func(_ resource.Place, p v2.Project) resource.UniqueKey { return resource.UniqueName(p.Metadata.Name) },
		Check: func(ctx context.Context, _ resource.Place, p v2.Project) error {
			if !resource.DryRun(ctx) && p.Metadata.UserData1 == "dry" {
				return errors.New("the check does not know that nothing is written")
			}
			if p.Metadata.UserData2 == "bad" {
				return errs.New(errs.Conflict, "a rule")
			}
			return nil
		},
		Guards: resource.Guards{
			Delete: func(_ context.Context, doc store.Doc) error {
				if strings.HasSuffix(string(doc.Key), "/used") {
					return errs.New(errs.Conflict, "in use")
				}
				return nil
			},
			Deleted: func(context.Context, store.Doc) error { deleted = true; return nil },
		},
	})
	s.Run(t,
		step{Do: "POST " + all, Body: named("a"), Status: 201},
		step{Do: "POST " + all, Body: named("used"), Status: 201},
	)
	if _, err := s.DB.Create(t.Context(), store.Write{Key: "projects/a/x/y", Parent: "projects/a"}); err != nil {
		t.Fatal(err)
	}
	before := documents(t, s.DB)
	for _, value := range []string{"true", "server"} {
		q := "?dryRun=" + value
		s.Run(t,
			step{Do: "POST " + all + q, Body: `{"metadata":{"name":"new","userData1":"dry"}}`, Status: 201, Text: `"name":"new"`},
			step{Do: "POST " + all + q, Body: named("a"), Status: 409, Text: "=Project already exists"},
			step{Do: "POST " + all + q, Body: named("A"), Status: 409, Text: "letter case"},
			step{Do: "POST " + all + q, Body: `{"metadata":{"name":"n","userData2":"bad"}}`, Status: 409, Text: "a rule"},
			step{Do: "POST " + all + q, Body: named("-"), Status: 400},
			step{Do: "POST " + all + q + "&strict=true", Body: `{"metadata":{"name":"n"},"x":1}`, Status: 400},
			step{Do: "PUT " + all + "/a" + q, Body: `{"metadata":{"name":"a","description":"changed"}}`, Status: 200, Text: "changed"},
			step{Do: "PUT " + all + "/new" + q, Body: named("new"), Status: 201},
			step{Do: "PUT " + all + "/a" + q, Body: named("b"), Status: 400},
			step{Do: "PUT " + all + "/a" + q, Body: named("a"), Header: `If-Match: "old"`, Status: 412},
			step{Do: "DELETE " + all + "/a" + q, Status: 409, Text: "child references first"},
			step{Do: "DELETE " + all + "/used" + q, Status: 409, Text: "in use"},
			step{Do: "DELETE " + all + "/none" + q, Status: 404},
		)
	}
	s.Run(t,
		step{Do: "DELETE " + all + "/a?dryRun=yes", Status: 400, Text: "neither true nor false"},
		step{Do: "DELETE " + all + "/a?dryrun=true", Status: 400, Text: "did you mean dryRun?"},
	)
	if err := s.DB.Delete(t.Context(), "projects/a/x/y", nil); err != nil {
		t.Fatal(err)
	}
	before = strings.Join(strings.Split(before, "\n")[0:1], "") + "\n" + strings.Split(before, "\n")[2]
	if a := s.Run(t, step{Do: "DELETE " + all + "/a?dryRun=true", Status: 204}); a.Header.Get("ETag") != "" || deleted {
		t.Errorf("a dry run of a deletion: %v, cleaned up %v", a.Header, deleted)
	}
	if after := documents(t, s.DB); after != before {
		t.Errorf("the dry runs left\n%s\nwant\n%s", after, before)
	}
	s.Run(t, step{Do: "DELETE " + all + "/a?dryRun=false", Status: 204})
	if !deleted {
		t.Error("dryRun=false is a dry run")
	}
}

func TestF13ADryRunOfAnUploadKeepsNoFile(t *testing.T) {
	t.Parallel()
	stored := 0
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		resource.Mount(r, db, resource.Def[v2.Project]{
			Kind: "Project", Collection: "projects", Item: "{project}", Put: resource.PutOK, File: &resource.File[v2.Project]{
				Limit: 100,
				Check: func(_ context.Context, _ v2.Project, content func() (io.ReadCloser, error)) error {
					file, err := content()
					if err != nil {
						return err
					}
					defer file.Close()
					if text, err := io.ReadAll(file); err != nil || string(text) != "good" {
						return errs.New(errs.Invalid, "a bad file")
					}
					stored++
					return nil
				},
			},
		})
	})
	s.Run(t,
		step{Do: "POST " + all + "?dryRun=true", Body: named("a"), File: "good", Status: 201},
		step{Do: "POST " + all + "?dryRun=true", Body: named("a"), File: "bad", Status: 400, Text: "a bad file"},
		step{Do: "POST " + all + "?dryRun=true", Body: named("a"), File: strings.Repeat("x", 101), Status: 413},
		step{Do: "GET " + all + "/a", Status: 404},
	)
	if stored != 1 || documents(t, s.DB) != "" {
		t.Errorf("%d files were checked; stored is %q", stored, documents(t, s.DB))
	}
	if err := s.DB.SweepBlobs(t.Context(), 0); err != nil {
		t.Error(err)
	}
	s.Run(t, step{Do: "POST " + all, Body: named("a"), File: "good", Status: 201})
	doc, err := s.DB.Get(t.Context(), "projects/a")
	if err != nil {
		t.Fatal(err)
	}
	s.Run(t, step{Do: "PUT " + all + "/a?dryRun=true", Body: named("a"), File: "good", Status: 200})
	if now, err := s.DB.Get(t.Context(), "projects/a"); err != nil || now.Rev != doc.Rev {
		t.Errorf("revision %d, %v; want %d", now.Rev, err, doc.Rev)
	}
}

func TestF14APutWithoutMetadataIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK})
	const full = `{"metadata":{"name":"a","description":"kept"}}`
	s.Run(t, step{Do: "POST " + all, Body: full, Status: 201})
	for _, body := range []string{"null", "{}", `{"meta-data":{"name":"a"}}`, `{"metadata":null}`, "[]", `""`} {
		if a := s.Do(t, step{Do: "PUT " + all + "/a", Body: body}); a.Status < 400 || a.Status >= 500 {
			t.Errorf("PUT of %s: %d %s", body, a.Status, a.Body)
		}
	}
	s.Run(t,
		step{Do: "PUT " + all + "/a", Body: "{}", Status: 400, Text: "metadata: missing"},
		step{Do: "GET " + all + "/a", Status: 200, Text: `"description":"kept"`},
		step{Do: "PUT " + all + "/a", Body: `{"metadata":{"description":"new"}}`, Status: 200, Text: `"name":"a","description":"new"`},
	)
}

func TestF20ReadsAreConditional(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK})
	tag := s.Run(t, step{Do: "POST " + all, Body: named("a"), Status: 201}).Header.Get("ETag")
	a := s.Run(t, step{Do: "GET " + all + "/a", Header: "If-None-Match: " + tag, Status: 304, Text: "="})
	if a.Header.Get("ETag") != tag {
		t.Errorf("the ETag is %q, want %q", a.Header.Get("ETag"), tag)
	}
	s.Run(t,
		step{Do: "GET " + all + "/a", Header: `If-None-Match: "x", W/` + tag, Status: 304},
		step{Do: "GET " + all + "/a", Header: `If-None-Match: "x"`, Status: 200},
		step{Do: "PUT " + all + "/a", Body: `{"metadata":{"name":"a","userData1":"x"}}`, Status: 200},
		step{Do: "GET " + all + "/a", Header: "If-None-Match: " + tag, Status: 200},
	)
}

// A PUT with If-None-Match creates, and replaces nothing.
func TestAPutCanBeMadeToCreateOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutUpsert})
	tag := s.Run(t, step{Do: "PUT " + all + "/a", Body: named("a"), Header: "If-None-Match: *", Status: 201}).Header.Get("ETag")
	s.Run(t,
		step{Do: "PUT " + all + "/a", Body: `{"metadata":{"description":"x"}}`, Header: "If-None-Match: *", Status: 412, Text: "the document exists"},
		step{Do: "PUT " + all + "/a", Body: `{"metadata":{"description":"x"}}`, Header: "If-None-Match: " + tag, Status: 412},
		step{Do: "DELETE " + all + "/a", Header: "If-None-Match: " + tag, Status: 412},
		step{Do: "PUT " + all + "/a", Body: `{"metadata":{"description":"x"}}`, Header: `If-None-Match: "other"`, Status: 200},
	)
}

func TestF20StrictIsTrueOrFalse(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{})
	const odd = `{"metadata":{"name":"a"},"spec":{}}`
	s.Run(t,
		step{Do: "POST " + all + "?strict=1", Body: odd, Status: 400, Text: "there is no such member"},
		step{Do: "POST " + all + "?strict=true", Body: odd, Status: 400, Text: "there is no such member"},
		step{Do: "POST " + all + "?strict=yes", Body: odd, Status: 400, Text: "Invalid query strict"},
		step{Do: "POST " + all + "?strict=false", Body: odd, Status: 201},
	)
}

func TestF20ARepeatedPartIsMalformed(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		resource.Mount(r, db, resource.Def[v2.Project]{
			Kind: "Project", Collection: "projects", Item: "{project}", File: &resource.File[v2.Project]{Limit: 100},
		})
	})
	part := "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n" + named("a") + "\r\n"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+all, strings.NewReader(part+part+"--b--\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	if a := s.Send(t, req); a.Status != 422 || !strings.Contains(a.Body, "given twice") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// The whole body arrives before the connection ends, so that the client reads the answer
// instead of a reset.
func TestF20AnOversizedFileIsAnsweredWithoutAReset(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		resource.Mount(r, db, resource.Def[v2.Project]{
			Kind: "Project", Collection: "projects", Item: "{project}", File: &resource.File[v2.Project]{Limit: 1 << 20, Secret: true, Show: func(_ context.Context, _ store.Doc, b []byte) ([]byte, error) { return b, nil }},
		})
	})
	for range 5 {
		a := s.Do(t, step{Do: "POST " + all, Body: named("a"), File: strings.Repeat("x", 24<<20)})
		if a.Status != 413 {
			t.Fatalf("got %d %s", a.Status, a.Body)
		}
	}
	// A client that sends everything before it reads, as many do, must find the answer there.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /v2/projects HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 16777216\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	body := len(head) - strings.Index(head, "--b")
	if _, err := io.WriteString(conn, strings.Repeat("x", 16<<20-body)); err != nil {
		t.Fatalf("the server ended the connection while the body was sent: %v", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d", answer.StatusCode)
	}
}

func TestF26UnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, resource.Def[v2.Project]{Put: resource.PutOK})
	s.Run(t,
		step{Do: "POST " + all + "?strct=true", Body: named("a"), Status: 400, Text: "did you mean strict?"},
		step{Do: "POST " + all, Body: named("a"), Status: 201},
		step{Do: "GET " + all + "?limt=1", Status: 400, Text: "did you mean limit?"},
		step{Do: "GET " + all + "/a?limit=1", Status: 400, Text: `there is no parameter "limit"`},
		step{Do: "PUT " + all + "/a?force=true", Body: named("a"), Status: 400},
		step{Do: "DELETE " + all + "/a?cascade=true", Status: 400},
		step{Do: "GET " + all + "/a", Status: 200},
	)
}
