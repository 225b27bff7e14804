package syncobjects_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

const appKey = "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\n"

func TestAppsActInsteadOfUsers(t *testing.T) {
	t.Parallel()
	app := map[string]string{"gitType": "GitHub", "url": "https://ghe.example.org/acme/fleet", "appID": "17", "appInstallationID": "42", "appKey": appKey, "apiURL": "https://ghe.example.org/api/v3/"}
	s, err := syncobjects.Read("git", syncobjects.Object{Name: "obj", KV: keyValueMaps{app}}, syncobjects.Object{}, syncobjects.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (git.App{ID: "17", Installation: 42, Key: appKey}); s.Repo.App != want || s.Repo.API != "https://ghe.example.org/api/v3" {
		t.Errorf("Read = %+v, want app 17 as installation 42 with its key", s.Repo)
	}
	if text := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(text, "hunter2") {
		t.Errorf("the settings show the key: %s", text)
	}
	if !v2.IsSecretKey("appKey") || v2.IsSecretKey("appID") || v2.IsSecretKey("appInstallationID") || v2.IsSecretKey("apiURL") {
		t.Error("of the keys of an app, appKey alone is secret")
	}
	for name, change := range map[string]map[string]string{
		"a missing key is named":             {"appKey": ""},
		"an installation that is no number":  {"appInstallationID": "hunter2"},
		"a key that is none":                 {"appKey": "hunter2"},
		"an interface with credentials":      {"apiURL": "https://u:hunter2@h/api"},
		"an interface of a metadata service": {"apiURL": "http://169.254.169.254"},
		"an interface over another protocol": {"apiURL": "file:///hunter2"},
		"an interface with a query":          {"apiURL": "https://h/?hunter2"},
	} {
		broken := maps.Clone(app)
		maps.Copy(broken, change)
		_, err := syncobjects.Read("git", syncobjects.Object{Name: "obj", KV: keyValueMaps{broken}}, syncobjects.Object{}, syncobjects.Rules{})
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Read: %v, want Invalid without the value", name, err)
		}
	}
	if _, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{"gitType": "github", "url": "https://h/o/r", "userName": "u", "gitToken": "t", "apiURL": "https://api.h"}}}, syncobjects.Object{}, syncobjects.Rules{}); err != nil {
		t.Errorf("an interface without a path: %v", err)
	}
}
