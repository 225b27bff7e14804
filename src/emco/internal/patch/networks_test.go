package patch_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
)

const (
	attachments = "k8s.v1.cni.cncf.io/networks"
	interfaces  = "k8s.plugin.opnfv.org/nfn-network"
	net0        = `{"interfaces":[{"interface":"net0","name":"tills","defaultGateway":"false"}]}`
)

// annotated returns a Deployment whose pods have annotations.
func annotated(t testing.TB, of map[string]string) []byte {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(`{"spec":{"replicas":12345678901234567890,"template":{"metadata":{"annotations":` + string(text) + `}}}}`)
}

// annotations returns those of the pods of a Deployment.
func annotations(t testing.TB, content []byte) map[string]string {
	t.Helper()
	var d struct {
		Spec struct {
			Template struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
	return d.Spec.Template.Metadata.Annotations
}

func TestPodsGetNetworks(t *testing.T) {
	t.Parallel()
	const nodus, one = `[{"name":"ovn-networkobj","namespace":"default"}]`, `{"type":"ovn4nfv","interface":[{"interface":"net0","name":"tills","defaultGateway":"false"}]}`
	for _, tt := range []struct {
		name     string
		have     map[string]string
		attached string
		made     string
	}{
		{"no annotations", nil, nodus, one},
		{"other annotations stay", map[string]string{"a": "b"}, nodus, one},
		{
			"other plugins stay",
			map[string]string{attachments: `[{"name":"sriov","interface":"eth9"}]`},
			`[{"name":"sriov","interface":"eth9"},{"name":"ovn-networkobj","namespace":"default"}]`, one,
		},
		{"names of other plugins stay", map[string]string{attachments: "sriov@eth9, other/two"}, "sriov@eth9, other/two,default/ovn-networkobj", one},
		{"Nodus is there, in JSON", map[string]string{attachments: `[{"name":"ovn-networkobj"}]`}, `[{"name":"ovn-networkobj"}]`, one},
		{"Nodus is there, by name", map[string]string{attachments: "sriov, default/ovn-networkobj@x"}, "sriov, default/ovn-networkobj@x", one},
		{
			"Nodus of another namespace is another one",
			map[string]string{attachments: `[{"name":"ovn-networkobj","namespace":"x"}]`},
			`[{"name":"ovn-networkobj","namespace":"x"},{"name":"ovn-networkobj","namespace":"default"}]`, one,
		},
		{
			"other interfaces stay",
			map[string]string{interfaces: `{"type":"ovn4nfv","interface":[{"interface":"net7","name":"a<b"}]}`},
			nodus,
			`{"type":"ovn4nfv","interface":[{"interface":"net7","name":"a<b"},{"interface":"net0","name":"tills","defaultGateway":"false"}]}`,
		},
		{"an interface of the same name is replaced", map[string]string{interfaces: `{"type":"ovn4nfv","interface":[{"interface":"net0","name":"old"}]}`}, nodus, one},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := patch.Apply(patch.Networks, deployment, annotated(t, tt.have), []byte(net0))
			if err != nil {
				t.Fatal(err)
			}
			now := annotations(t, got)
			if now[attachments] != tt.attached || now[interfaces] != tt.made || now["a"] != tt.have["a"] {
				t.Errorf("the annotations are %q, want %s and %s", now, tt.attached, tt.made)
			}
			if !strings.Contains(string(got), "12345678901234567890") {
				t.Errorf("a number lost digits: %s", got)
			}
			if again, err := patch.Apply(patch.Networks, deployment, got, []byte(net0)); err != nil || string(again) != string(got) {
				t.Errorf("the second time: %s %v, want %s", again, err, got)
			}
		})
	}
}

func TestEveryWorkloadGetsNetworksWhereItsPodsAre(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"Pod":         `{"metadata":{"annotations":{`,
		"StatefulSet": `{"spec":{"template":{"metadata":{"annotations":{`,
		"CronJob":     `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{`,
	} {
		got, err := patch.Apply(patch.Networks, manifest.ID{Kind: kind}, []byte(`{}`), []byte(net0))
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %s %v, want it to begin with %s", kind, got, err, want)
		}
	}
}

func TestNetworksThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		id      manifest.ID
		content string
		text    string
		want    string
	}{
		{"no workload", custom, `{}`, net0, "not known where a Widget has its pods"},
		{"no patch", deployment, `{}`, `[]`, "networks patch"},
		{"no object", deployment, `{"spec":[]}`, net0, "should have template is no object"},
		{"no annotations", deployment, `{"spec":{"template":{"metadata":{"annotations":{"a":1}}}}}`, net0, "not texts"},
		{"no list", deployment, string(annotated(t, map[string]string{attachments: `[{]`})), net0, "annotation " + attachments},
		{"no interfaces", deployment, string(annotated(t, map[string]string{interfaces: `{"type":"ovn4nfv","interface":"net0"}`})), net0, "annotation " + interfaces},
		{"another plugin", deployment, string(annotated(t, map[string]string{interfaces: `{"type":"other"}`})), net0, `its type is "other"`},
		{"too long", deployment, string(annotated(t, map[string]string{"a": strings.Repeat("x", 256<<10)})), net0, "above the limit of 262144"},
	} {
		if out, err := patch.Apply(patch.Networks, tt.id, []byte(tt.content), []byte(tt.text)); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s %v, want a refusal with %q", tt.name, out, err, tt.want)
		}
	}
}

// FuzzNetworks looks for annotations of charts that end the process, or that change when the same networks are
// added again.
func FuzzNetworks(f *testing.F) {
	for _, a := range []string{"", "a,b/c@d", `[{"name":"ovn-networkobj"}]`, "[", "null", "[null]"} {
		for _, i := range []string{"", "null", `{"type":"ovn4nfv","interface":[{"interface":"net0"}]}`, `{"type":"ovn4nfv","interface":[null]}`} {
			f.Add(a, i)
		}
	}
	f.Fuzz(func(t *testing.T, attached, made string) {
		once, err := patch.Apply(patch.Networks, deployment, annotated(t, map[string]string{attachments: attached, interfaces: made}), []byte(net0))
		if err != nil {
			if !errs.Is(err, errs.Invalid) {
				t.Fatalf("not the user's fault: %v", err)
			}
			return
		}
		if now := annotations(t, once); !strings.Contains(now[attachments], "ovn-networkobj") || !strings.Contains(now[interfaces], `"net0"`) {
			t.Fatalf("the networks are not there: %q", now)
		}
		if twice, err := patch.Apply(patch.Networks, deployment, once, []byte(net0)); err != nil || string(twice) != string(once) {
			t.Fatalf("the second time: %s %v, want %s", twice, err, once)
		}
	})
}
