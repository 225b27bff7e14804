package v2_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// A stored secret is kept only for the servers that it was given with.
func TestF62AChangedServerNeedsTheSecretAgain(t *testing.T) {
	t.Parallel()
	object := func(pairs map[string]v2.Scalar) v2.SyncObject {
		return v2.SyncObject{Spec: v2.KVSpec{KV: []map[string]v2.Scalar{pairs}}}
	}
	old := map[string]v2.Scalar{
		"url": "https://git.example.org/u/r", "gitToken": "t", "gitType": "github", "userName": "u", "statusUrl": "https://reports.example.org/s", "statusToken": "s",
	}
	for name, tt := range map[string]struct {
		change map[string]v2.Scalar
		ok     bool
	}{
		"nothing":                        {nil, true},
		"another repository":             {map[string]v2.Scalar{"url": "https://git.example.org/u/other"}, true},
		"the port that was meant":        {map[string]v2.Scalar{"url": "https://GIT.example.org:443/u/r"}, true},
		"another host":                   {map[string]v2.Scalar{"url": "https://thief.example/u/r"}, false},
		"another host with its token":    {map[string]v2.Scalar{"url": "https://new.example/u/r", "gitToken": "n", "statusToken": "n", "statusUrl": "https://reports.example.org/s"}, true},
		"another port":                   {map[string]v2.Scalar{"url": "https://git.example.org:8443/u/r"}, false},
		"without TLS":                    {map[string]v2.Scalar{"url": "http://git.example.org/u/r"}, false},
		"no URL, so a public service":    {map[string]v2.Scalar{"url": ""}, false},
		"an alias of the key":            {map[string]v2.Scalar{"url": "", "repoUrl": "https://thief.example/u/r"}, false},
		"an interface elsewhere":         {map[string]v2.Scalar{"apiUrl": "https://thief.example/api"}, false},
		"an interface on the server":     {map[string]v2.Scalar{"apiUrl": "https://git.example.org/api"}, true},
		"reports elsewhere":              {map[string]v2.Scalar{"statusUrl": "https://thief.example/s"}, false},
		"reports kept, which are hidden": {map[string]v2.Scalar{"statusUrl": v2.Mask}, true},
		"the server of reports":          {map[string]v2.Scalar{"url": "https://reports.example.org/u/r"}, false},
	} {
		next := map[string]v2.Scalar{}
		for key, value := range old {
			next[key] = value
		}
		next["gitToken"], next["statusToken"] = v2.Mask, v2.Mask
		for key, value := range tt.change {
			if next[key] = value; value == "" {
				delete(next, key)
			}
		}
		o := object(next)
		if err := o.Unmask(object(old)); (err == nil) != tt.ok || err != nil && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v, want allowed: %v", name, err, tt.ok)
		}
	}
}
