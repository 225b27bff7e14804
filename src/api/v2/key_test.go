package v2_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestClusterKeysAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", v2.MaxName)
	for _, k := range []v2.ClusterKey{v2.NewClusterKey("edge", "c1"), v2.NewClusterKey("a-b.c_d", "E-1"), v2.NewClusterKey(long, long)} {
		if got, err := v2.ParseClusterKey(k.String()); err != nil || got != k {
			t.Errorf("ParseClusterKey(%q) = %v, %v", k, got, err)
		}
		if again := v2.NewClusterKey(k.Provider(), k.Cluster()); again != k {
			t.Errorf("%s is %s of %s", k, k.Cluster(), k.Provider())
		}
		if got, ok := v2.ClusterOf(k.StoreKey()); !ok || got != k {
			t.Errorf("ClusterOf(%q) = %v, %t", k.StoreKey(), got, ok)
		}
		in := map[v2.ClusterKey]v2.ClusterKey{k: k}
		text, err := json.Marshal(in)
		if want := `{"` + k.String() + `":"` + k.String() + `"}`; err != nil || string(text) != want {
			t.Errorf("Marshal = %s, %v; want %s", text, err, want)
		}
		var out map[v2.ClusterKey]v2.ClusterKey
		if err := json.Unmarshal(text, &out); err != nil || out[k] != k {
			t.Errorf("Unmarshal(%s) = %v, %v", text, out, err)
		}
	}
}

func TestInvalidClusterKeysAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", v2.MaxName+1)
	for _, s := range []string{
		"", "+", "edge", "edge+", "+c1", "edge+c1+c2", "edge c1", "edge+c/1", "../edge+c1", "edge+..", long + "+c1", "edge+" + long, "edge+\u202ec1",
	} {
		k, err := v2.ParseClusterKey(s)
		if !errs.Is(err, errs.Invalid) || k != "" {
			t.Errorf("ParseClusterKey(%q) = %v, %v; want Invalid", s, k, err)
		} else if strings.Contains(err.Error(), "\u202e") || len(err.Error()) > 300 {
			t.Errorf("ParseClusterKey(%q): the error repeats its input as it came: %q", s, err)
		}
	}
	for _, s := range []string{
		"", "cluster-providers/edge", "cluster-providers/edge/clusters/c1/labels/l", "projects/edge/clusters/c1", "cluster-providers/edge/cluster-sync-objects/c1",
	} {
		if k, ok := v2.ClusterOf(s); ok {
			t.Errorf("ClusterOf(%q) = %v", s, k)
		}
	}
}

func TestTheZeroClusterKeyIsTheEmptyText(t *testing.T) {
	t.Parallel()
	type document struct {
		Cluster v2.ClusterKey `json:"cluster"`
		Other   v2.ClusterKey `json:"other,omitzero"`
	}
	text, err := json.Marshal(document{})
	if err != nil || string(text) != `{"cluster":""}` {
		t.Errorf("Marshal = %s, %v", text, err)
	}
	d := document{Cluster: v2.NewClusterKey("edge", "c1")}
	if err := json.Unmarshal(text, &d); err != nil || d.Cluster != "" {
		t.Errorf("Unmarshal(%s) = %v, %v", text, d, err)
	}
	if err := json.Unmarshal([]byte(`{"cluster":"edge"}`), &d); err == nil {
		t.Error("Unmarshal accepted a text that is no key")
	}
}

// A fleet's keys are read from etcd and split in loops over all clusters.
func TestKeysAreTakenApartWithoutACopy(t *testing.T) {
	k := v2.NewClusterKey("edge", "c1")
	text := k.String()
	if n := testing.AllocsPerRun(100, func() {
		parsed, err := v2.ParseClusterKey(text)
		if err != nil || parsed.Provider() != "edge" || parsed.Cluster() != "c1" {
			t.Error(parsed, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a key, want none", n)
	}
}
