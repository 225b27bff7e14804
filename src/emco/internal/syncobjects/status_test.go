package syncobjects_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

func TestWhereAgentsReport(t *testing.T) {
	t.Parallel()
	base := map[string]string{"url": "https://git.example.org/u/fleet", "userName": "u", "gitToken": "tok", "branch": "edge"}
	tests := []struct {
		name string
		more map[string]string
		want string // url user token mode branch
	}{
		{"by default into branches of the same repository", nil, "https://git.example.org/u/fleet u tok ref status/"},
		{"another prefix", map[string]string{"statusBranch": "reports/"}, "https://git.example.org/u/fleet u tok ref reports/"},
		{"another repository of the server, with the same credential", map[string]string{"statusUrl": "https://git.example.org/u/status"}, "https://git.example.org/u/status u tok ref status/"},
		{"another server, with a credential of its own", map[string]string{"statusUrl": "https://other.example.org/s", "statusUserName": "r", "statusToken": "read"}, "https://other.example.org/s r read ref status/"},
		{"upstream's path", map[string]string{"statusMode": "path"}, "https://git.example.org/u/fleet u tok path edge"},
		{"upstream's path in another repository", map[string]string{"statusMode": "path", "statusUrl": "https://git.example.org/u/status"}, "https://git.example.org/u/status u tok path main"},
		{"to the control plane", map[string]string{"statusMode": "https"}, "   https "},
		{"to the control plane at its address", map[string]string{"statusMode": "https", "statusUrl": "https://emco.example.org/"}, "   https  https://emco.example.org"},
	}
	for _, test := range tests {
		s, err := syncobjects.Read("fluxcd", syncobjects.Object{Name: "git", KV: keyValueMaps{base, test.more}}, syncobjects.Object{}, syncobjects.Rules{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		st := s.Status
		got := strings.Join([]string{st.Repo.URL, st.Repo.User, st.Repo.Token.Reveal(), st.Mode, st.Branch}, " ")
		if st.URL != "" {
			got += " " + st.URL
		}
		if got != test.want {
			t.Errorf("%s: status is %q, want %q", test.name, got, test.want)
		}
		for key := range test.more {
			if s.Options[key] != "" {
				t.Errorf("%s: %s is handed to the backend", test.name, key)
			}
		}
	}
}

func TestWhereAgentsMustNotReport(t *testing.T) {
	t.Parallel()
	base := map[string]string{"url": "https://git.example.org/u/fleet", "userName": "u", "gitToken": "tok-secret"}
	for name, more := range map[string]map[string]string{
		"the credential would be shown to another server": {"statusUrl": "https://other.example.org/s"},
		"no way to report":                      {"statusMode": "pigeon"},
		"no branch":                             {"statusBranch": "a..b"},
		"a credential in the URL":               {"statusUrl": "https://u:p@git.example.org/s"},
		"a file":                                {"statusUrl": "file:///tmp/x"},
		"a token for the control plane":         {"statusMode": "https", "statusToken": "x"},
		"a branch at the control plane":         {"statusMode": "https", "statusBranch": "x"},
		"a control plane by ssh":                {"statusMode": "https", "statusUrl": "ssh://git@emco.example.org"},
		"a credential for the control plane":    {"statusMode": "https", "statusUrl": "https://u:p@emco.example.org"},
		"another server by ssh":                 {"statusUrl": "ssh://git@other.example.org/s"},
		"a user that would break out of a line": {"statusUrl": "https://git.example.org/s", "statusUserName": "a\nb", "statusToken": "x"},
	} {
		_, err := syncobjects.Read("git", syncobjects.Object{Name: "git", KV: keyValueMaps{base, more}}, syncobjects.Object{}, syncobjects.Rules{})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "cluster-sync-object git") || strings.Contains(err.Error(), "tok-secret") {
			t.Errorf("%s: Read: %v, want Invalid about the object", name, err)
		}
	}
}
