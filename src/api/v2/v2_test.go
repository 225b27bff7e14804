package v2_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body string
		kind errs.Kind
		want string
	}{
		"nothing":                    {" \n", errs.Invalid, "Empty body"},
		"half a value":               {`{"metadata":`, errs.Malformed, ""},
		"two values":                 {`{} {}`, errs.Malformed, "more than one"},
		"a list":                     {`[]`, errs.Malformed, "cannot unmarshal array into a document of type object"},
		"a wrong type":               {`{"metadata":{"name":12345}}`, errs.Malformed, "cannot unmarshal number into field metadata.name of type string; put the value in quotes"},
		"both spellings":             {`{"metadata":{},"Metadata":{}}`, errs.Invalid, "- Metadata: given twice"},
		"a member twice":             {`{"metadata":{"name":"a","name":"b"}}`, errs.Invalid, "- metadata.name: given twice"},
		"an old name and a new one":  {`{"spec":{"app":"a","app-name":"b"}}`, errs.Invalid, "- spec.app-name: given twice"},
		"a key twice, out of schema": {`{"x":{"y":1,"y":2}}`, errs.Invalid, "- x.y: given twice"},
		"depth":                      {strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101), errs.Malformed, "deeper"},
		"bad UTF-8":                  {"{\"metadata\":{\"name\":\"\xff\"}}", errs.Malformed, "UTF-8"},
		"a number that is too large": {`{"spec":{"wait":1e99}}`, errs.Malformed, "spec.wait"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := v2.Decode[v2.AppDependency]([]byte(c.body), v2.Lenient)
			if !errs.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode(%.60s) = %v (%v), want %v with %q", c.body, err, errs.KindOf(err), c.kind, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "12345") {
				t.Errorf("Decode(%.60s) repeats a value: %v", c.body, err)
			}
		})
	}
}

// canonicalForms pairs what clients send with what is stored.
var canonicalForms = []struct{ name, in, out string }{
	{"case does not matter", `{"Metadata":{"NAME":"a"},"sPec":{"app":"b"}}`, `{"metadata":{"name":"a","description":"","userData1":"","userData2":""},"spec":{"app":"b"}}`},
	{"the name of an older release", `{"spec":{"app-name":"b"}}`, `{"metadata":{"name":"","description":"","userData1":"","userData2":""},"spec":{"app":"b"}}`},
	{"unknown members are dropped", `{"x":1,"spec":{"app":"b","y":{}}}`, `{"metadata":{"name":"","description":"","userData1":"","userData2":""},"spec":{"app":"b"}}`},
	{"null is nothing", `{"metadata":null,"spec":null}`, `{"metadata":{"name":"","description":"","userData1":"","userData2":""},"spec":{"app":""}}`},
}

func TestDecodeIsLenient(t *testing.T) {
	t.Parallel()
	for _, c := range canonicalForms {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			doc, err := v2.Decode[v2.AppProfile]([]byte(c.in), v2.Lenient)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(doc)
			if err != nil || string(got) != c.out {
				t.Errorf("Decode(%s) = %s, %v\nwant %s", c.in, got, err, c.out)
			}
		})
	}
}

func TestStrictReportsAllUnknownMembers(t *testing.T) {
	t.Parallel()
	_, err := v2.Decode[v2.PlacementIntent]([]byte(`{"metadata":{"name":"a","nmae":"b"},"spec":{}}`), v2.Strict)
	want := "Invalid Input:\n- metadata.nmae: there is no such member\n- spec: there is no such member"
	if err == nil || err.Error() != want {
		t.Errorf("Decode strictly = %v, want %s", err, want)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	good := []string{"a", "A.b_c-9", "0", strings.Repeat("x", 128), "CON"}
	bad := []string{"", ".", "..", ".git", "a/b", "a+b", "a b", "-a", "a.", "a\x00", "a\nb", "\u202ea", "\u0430", "\U0001f600", "%2e%2e", strings.Repeat("x", 129)}
	for _, name := range good {
		if err := v2.CheckName("name", name); err != nil {
			t.Errorf("CheckName(%.20q) = %v, want nil", name, err)
		}
	}
	for _, name := range bad {
		err := v2.CheckName("name", name)
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("CheckName(%.20q) = %v, want Invalid", name, err)
			continue
		}
		if strings.Count(err.Error(), "\n") != 1 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r > 126 || r < 32 && r != '\n' }) {
			t.Errorf("CheckName(%.20q) = %q: it repeats a character that must be escaped", name, err)
		}
	}
}

func TestGitOpsTypes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"fluxcd": "fluxcd", "FluxV2": "fluxcd", "flux": "fluxcd", "azureArc": "azureArcV2", "AZUREARCV2": "azureArcV2",
		"googleAnthos": "anthos", "anthos": "anthos", "argo": "argocd", "ArgoCD": "argocd", "plain": "git", "git": "git",
		"exec": "exec", "OCI": "oci", "s3": "s3", "bucket": "s3", "": "", "svn": "", "k8s": "",
	}
	for in, out := range want {
		if got, ok := v2.GitOpsType(in); got != out || ok != (out != "") {
			t.Errorf("GitOpsType(%q) = %q, %t, want %q", in, got, ok, out)
		}
	}
}

// The error of a document lists all that is wrong with it.
func TestValidateReportsEverything(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	cases := map[string]struct {
		doc  v2.Document
		want []string
	}{
		"a group": {
			&v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{
				Version: strings.Repeat("a", 54), Overrides: []v2.OverrideValue{{App: "a"}, {App: "b", Values: map[string]string{"k": long}}},
			}},
			[]string{"metadata.name: missing", "spec.compositeProfile: missing", "spec.version: ", "spec.logicalCloud: missing", "spec.overrideValues[0].values: missing", "spec.overrideValues[1].values.k: 129 characters"},
		},
		"an app intent": {
			&v2.AppIntent{Spec: v2.AppIntentSpec{Intent: v2.PlacementSelection{
				AllOf: []v2.AllOf{{}, {Selector: v2.Selector{Provider: "p", Cluster: "c"}, AnyOf: []v2.Selector{{Provider: "p", Label: "l"}}}},
				AnyOf: []v2.Selector{
					{Provider: "p", Cluster: "c", Label: "l"},
					{Provider: "p", Cluster: "c", Labels: []string{"a", "b"}},
					{Provider: "p", Label: "l", Labels: []string{"a", "b c"}},
					{Provider: "p", Labels: strings.Split(strings.Repeat("l,", 21), ",")},
				},
			}}},
			[]string{
				"Missing name for the intent", "Missing app for the intent", "allOf[0]: Missing clusterProvider in an intent", "allOf[0]: Missing cluster or clusterLabel", "allOf[1]: give either", "anyOf[0]: Only one of cluster name or cluster label allowed",
				"anyOf[1]: Only one of cluster name or cluster label allowed", "anyOf[2]: give either clusterLabel or clusterLabels, not both", `anyOf[2].clusterLabels[1]: "b c" is not a name`, "anyOf[3].clusterLabels: 22 labels, at most 20",
			},
		},
		"a cluster": {
			&v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: "c", Description: strings.Repeat("é", 1025), UserData1: strings.Repeat("x", 513)}}, Spec: v2.ClusterSpec{GitOps: v2.GitOps{Reference: "a/b"}}},
			[]string{"metadata.description: 1025", "metadata.userData1: 513", "gitOpsReferenceObject: \"a/b\"", "gitOpsType: missing"},
		},
		"a controller": {
			&v2.Controller{Named: v2.Named{Metadata: v2.Metadata{Name: "c"}}, Spec: v2.ControllerSpec{Host: "a\nb", Port: 50001, Priority: 101}},
			[]string{`spec.host: "a\nb"`, "spec.port: 50001", "spec.priority: 101"},
		},
		"a logical cloud": {
			&v2.LogicalCloud{Named: v2.Named{Metadata: v2.Metadata{Name: "c"}}, Spec: v2.LogicalCloudSpec{Level: "2", Namespace: "A", User: v2.User{Name: strings.Repeat("u", 21)}}},
			[]string{"spec.level", "spec.namespace", "spec.user.userName"},
		},
		"a group intent": {
			&v2.GroupIntent{Named: v2.Named{Metadata: v2.Metadata{Name: "c"}}, Spec: v2.GroupIntentSpec{Intent: map[string]string{"../x": "i"}}},
			[]string{`"../x" is not the name of a controller`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.doc.Validate()
			if !errs.Is(err, errs.Invalid) || !strings.HasPrefix(err.Error(), "Invalid Input:\n- ") {
				t.Fatalf("Validate() = %v, want Invalid", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %v\nwant also %q", err, want)
				}
			}
			if got := strings.Count(err.Error(), "\n"); got != len(c.want) {
				t.Errorf("Validate() = %v\nhas %d violations, want %d", err, got, len(c.want))
			}
		})
	}
}

func TestManyViolationsAreCut(t *testing.T) {
	t.Parallel()
	var o v2.DeploymentIntentGroup
	o.Spec.Overrides = make([]v2.OverrideValue, 10000)
	if text := o.Validate().Error(); strings.Count(text, "\n") > 60 || !strings.Contains(text, "more") {
		t.Errorf("Validate() has %d lines", strings.Count(text, "\n"))
	}
}

func TestSecretsOfSyncObjects(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"gitToken", "token", "clientSecret", "password", "sshKey", "privateKey", "somethingNew", "TOKEN"} {
		if !v2.IsSecretKey(key) {
			t.Errorf("IsSecretKey(%q) = false", key)
		}
	}
	for _, key := range []string{"url", "branch", "refMode", "shardSize", "onForeignEdit", "onProtected"} {
		if v2.IsSecretKey(key) {
			t.Errorf("IsSecretKey(%q) = true", key)
		}
	}
	old := v2.SyncObject{Spec: v2.KVSpec{KV: []map[string]v2.Scalar{{"branch": "main"}, {"gitToken": "t1", "sshKey": ""}, {"gitToken": "t2"}}}}
	masked := old.Masked()
	want := []map[string]v2.Scalar{{"branch": "main"}, {"gitToken": "***", "sshKey": ""}, {"gitToken": "***"}}
	if !reflect.DeepEqual(masked.Spec.KV, want) || old.Spec.KV[1]["gitToken"] != "t1" {
		t.Errorf("Masked() = %v of %v, want %v", masked.Spec.KV, old.Spec.KV, want)
	}
	if err := masked.Unmask(old); err != nil || !reflect.DeepEqual(masked, old) {
		t.Errorf("Unmask = %v, %v, want what was masked", masked, err)
	}
	moved := v2.SyncObject{Spec: v2.KVSpec{KV: []map[string]v2.Scalar{{"gitToken": "***", "other": "***"}}}}
	if err := moved.Unmask(old); !errs.Is(err, errs.Invalid) || moved.Spec.KV[0]["gitToken"] != "t1" {
		t.Errorf("Unmask of a moved key = %v, %v; want the token, and an error for the other", moved, err)
	}
}

// The plain status keeps upstream's members, and shows none of ours when they are empty.
func TestStatusOnTheWire(t *testing.T) {
	t.Parallel()
	s := v2.Status{
		StatusSubject:  v2.StatusSubject{Project: "p", Name: "g"},
		States:         v2.States{StatusCtxID: "1", Actions: []v2.Action{}},
		DeployedStatus: v2.StatusInstantiated, DeployedCounts: map[string]int{"Applied": 1},
		Apps: []v2.AppStatus{{Name: "a", Clusters: []v2.ClusterStatus{{
			Provider: "e", Cluster: "c", Connectivity: "Available",
			Resources: []v2.ResourceStatus{{GVK: v2.GVK{Version: "v1", Kind: "ConfigMap"}, Name: "m", DeployedStatus: "Applied"}},
		}}}},
	}
	want := `{"project":"p","name":"g","states":{"statusctxid":"1","actions":[]},"deployedStatus":"Instantiated","deployedCounts":{"Applied":1},` +
		`"apps":[{"name":"a","clusters":[{"clusterProvider":"e","cluster":"c","connectivity":"Available",` +
		`"resources":[{"GVK":{"Group":"","Version":"v1","Kind":"ConfigMap"},"name":"m","deployedStatus":"Applied"}]}]}]}`
	if got, err := json.Marshal(s); err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v\nwant %s", got, err, want)
	}
}

// fuzzDecode checks that whatever is accepted is stable: what is stored reads back as
// the same document, and validation does not panic.
func fuzzDecode[T any, P interface {
	*T
	v2.Document
}](t *testing.T, data []byte) {
	doc, err := v2.Decode[T](data, v2.Lenient)
	if err != nil {
		if k := errs.KindOf(err); k != errs.Invalid && k != errs.Malformed {
			t.Fatalf("Decode(%q) = %v of kind %v", data, err, k)
		}
		return
	}
	valid := P(&doc).Validate() == nil
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v2.Decode[T](text, v2.Strict)
	if err != nil {
		t.Fatalf("Decode(%s), which was stored, = %v", text, err)
	}
	text2, err := json.Marshal(again)
	if err != nil || string(text) != string(text2) {
		t.Fatalf("stored %s\nread   %s, %v", text, text2, err)
	}
	if valid && P(&again).Validate() != nil {
		t.Fatalf("%s was valid and is not any more", text)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range canonicalForms {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"kv":[{"a":1},{"url":"https://u@h"}],"intent":{"allOf":[{"anyOf":[{}]}]},"gitOps":{"gitOpsType":"flux"},"overrideValues":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzDecode[v2.AppDependency](t, data)
		fuzzDecode[v2.Cluster](t, data)
		fuzzDecode[v2.SyncObject](t, data)
		fuzzDecode[v2.AppIntent](t, data)
		fuzzDecode[v2.DeploymentIntentGroup](t, data)
		fuzzDecode[v2.LogicalCloud](t, data)
		fuzzDecode[v2.CompositeApp](t, data)
		fuzzDecode[v2.ClusterLabel](t, data)
	})
}

func TestSecretsAmongOverrides(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"auth.root-password": "a", "API_KEY": "b", "cert": "-----BEGIN X", "image.tag": "1.2", "empty.token": "",
	}
	g := v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{Overrides: []v2.OverrideValue{{App: "a", Values: values}}}}
	got := g.Masked()
	want := map[string]string{"auth.root-password": "***", "API_KEY": "***", "cert": "***", "image.tag": "1.2", "empty.token": ""}
	if !reflect.DeepEqual(got.Spec.Overrides[0].Values, want) || values["API_KEY"] != "b" {
		t.Errorf("Masked() = %v of %v, want %v", got.Spec.Overrides, values, want)
	}
	if err := got.Unmask(g); err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("Unmask = %v, %v, want what was masked", got, err)
	}
	other := v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{Overrides: []v2.OverrideValue{{App: "b", Values: map[string]string{"API_KEY": "***"}}}}}
	if err := other.Unmask(g); !errs.Is(err, errs.Invalid) {
		t.Errorf("Unmask of another app's key = %v, want Invalid", err)
	}
}
