package apply_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// A dry run asks a server with dry runs of documents for its checks, and sends nothing that an
// older server would carry out.
func TestF50DryRunsAreCheckedByTheServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		older   bool
		refuse  string // the name of the project that the server refuses
		want    []output.Outcome
		note    string
		written []string
	}{
		{"all is well", false, "", []output.Outcome{output.Created, output.Created}, "", []string{"POST dryRun=true a", "POST dryRun=true b"}},
		{"the server refuses the first", false, "a", []output.Outcome{output.Failed, output.Created}, "", []string{"POST dryRun=true a", "POST dryRun=true b"}},
		{"the server refuses one that may need the first", false, "b", []output.Outcome{output.Created, output.Created}, "before the documents above it are applied: POST projects: no", []string{"POST dryRun=true a", "POST dryRun=true b"}},
		{"an older server", true, "", []output.Outcome{output.Created, output.Created}, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var written []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == http.MethodGet:
					http.Error(w, "not found", http.StatusNotFound)
				case r.Method == http.MethodDelete && tt.older:
					http.Error(w, "not found", http.StatusNotFound)
				case r.Method == http.MethodDelete:
					http.Error(w, "Invalid query dryRun", http.StatusBadRequest)
				default:
					name := string(body[strings.Index(string(body), `"name":"`)+8])
					written = append(written, fmt.Sprintf("%s %s %s", r.Method, r.URL.RawQuery, name))
					if name == tt.refuse {
						http.Error(w, "no", http.StatusBadRequest)
					}
				}
			}))
			t.Cleanup(s.Close)
			servers, err := config.Load(config.ServerFlags{Server: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := document.Parse("f", []byte("resourceContext: {anchor: projects}\nmetadata: {name: a}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: b}\n"))
			if err != nil {
				t.Fatal(err)
			}
			var results resultPrinter
			e := apply.New(apply.Options{Servers: servers, Client: client.Options{}, Printer: &results, DryRun: apply.ServerDryRun})
			_ = e.Run(t.Context(), anchor.Apply, parsed.Documents) // the results are compared
			var got []output.Outcome
			notes := ""
			for _, r := range results {
				got = append(got, r.Outcome)
				notes += r.Note
			}
			if !slices.Equal(got, tt.want) || !slices.Equal(written, tt.written) || !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
				t.Errorf("results %v, want %v; requests %q, want %q; notes %q", got, tt.want, written, tt.written, notes)
			}
		})
	}
}

// A dry run blames a missing parent only if the server says that it is missing.
func TestADryRunReportsAServerThatDoesNotAnswerForTheParent(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]errs.Kind{404: errs.Conflict, 503: errs.Unavailable} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/v1") {
				http.Error(w, "no", status)
				return
			}
			http.Error(w, "not found", http.StatusNotFound)
		}))
		t.Cleanup(s.Close)
		var results resultPrinter
		e := apply.New(apply.Options{Servers: servers(t, s.URL), Printer: &results, DryRun: apply.ServerDryRun})
		err := e.Run(t.Context(), anchor.Apply, []document.Document{
			{Anchor: "projects/p/composite-apps/web/v1/composite-profiles", Names: anchor.Names{Name: "x"}, Body: []byte(`{"metadata":{"name":"x"}}`)},
		})
		if !errs.Is(err, want) || len(results) != 1 || strings.Contains(results[0].Advice, "create its parent") != (status == 404) {
			t.Errorf("the parent is answered with %d: %+v, %v", status, results, err)
		}
	}
}
