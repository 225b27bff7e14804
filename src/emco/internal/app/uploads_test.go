package app_test

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"testing"
)

// try sends a multipart request, whatever its answer is.
func (s *testStage) try(method, path, doc string, file []byte) apiAnswer {
	s.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	s.must("pack", form.WriteField("metadata", doc))
	part, err := form.CreateFormFile("file", "file.tgz")
	s.must("pack", err)
	_, err = part.Write(file)
	s.must("pack", err)
	s.must("pack", form.Close())
	r, err := http.NewRequestWithContext(context.WithoutCancel(s.Context()), method, s.address+"/v2/"+path, &body)
	s.must("make a request", err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	res, err := http.DefaultClient.Do(r)
	s.must(method+" "+path, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.must("read the answer", err)
	return apiAnswer{Status: res.StatusCode, Body: string(text)}
}

func (s *testStage) stored() []string {
	s.Helper()
	all, err := files(s.config.Path("packages"))
	s.must("list uploads", err)
	return all
}

// Refused uploads leave nothing on the disk. An upload that is accepted again brings back a
// file that was lost.
func TestF16RefusedUploadsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	s.fleet("a")
	s.onboard("web")
	before := s.stored()
	fresh := s.chart("new", configMap)
	for name, tt := range map[string]struct {
		method, path, doc string
		file              []byte
		want              int
	}{
		"the parent is missing":          {"POST", "projects/none/composite-apps/c/v1/apps", named("new"), fresh, http.StatusConflict},
		"the parent of a PUT is missing": {"PUT", "projects/none/composite-apps/c/v1/apps/new", named("new"), fresh, http.StatusConflict},
		"the app exists":                 {"POST", till + "/apps", named("web"), s.chart("web", nameless), http.StatusConflict},
		"the document is invalid":        {"POST", till + "/apps", `{"metadata":{"name":"-"}}`, fresh, http.StatusBadRequest},
		"the document is no JSON":        {"POST", till + "/apps", `{`, fresh, 422},
		"the chart has another name":     {"POST", till + "/apps", named("other"), fresh, http.StatusBadRequest},
		"the file is no archive":         {"POST", till + "/apps", named("new"), []byte("no archive"), 422},
		"the name in the path differs":   {"PUT", till + "/apps/web", named("other"), fresh, http.StatusBadRequest},
		"a dry run":                      {"POST", till + "/apps?dryRun=true", named("new"), fresh, http.StatusCreated},
	} {
		a := s.try(tt.method, tt.path, tt.doc, tt.file)
		if a.Status != tt.want {
			t.Errorf("%s: got %d %s, want %d", name, a.Status, a.Body, tt.want)
		}
		if after := s.stored(); !slices.Equal(after, before) {
			t.Errorf("%s: %v is on the disk, want %v", name, after, before)
		}
	}
	for _, path := range before {
		s.must("lose a file", os.Remove(path))
	}
	if a := s.try("PUT", till+"/apps/web", named("web"), s.chart("web", configMap)); a.Status >= 300 {
		t.Errorf("upload again: %d %s", a.Status, a.Body)
	}
	if after := s.stored(); len(after) != 1 || !slices.Contains(before, after[0]) {
		t.Errorf("after another upload: %v, want one of %v", after, before)
	}
}
