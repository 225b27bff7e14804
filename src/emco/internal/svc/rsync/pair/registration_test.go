package pair

import (
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// registeredAs is what is desired of one app on a cluster with a registration.
func registeredAs(id string, bundle appcontext.Digest, rev int64) Desired {
	w := wants(bundle)
	w.Rev, w.Registrations = rev, map[v2.ClusterKey]string{"edge+c1": id}
	return w
}

func TestH62WhatWasAskedForIsForOneRegistration(t *testing.T) {
	t.Parallel()
	applied := appcontext.Pair{Key: key, Rev: 1, Registration: "old", Desired: "a", Applied: "a", Held: digests("a"), Phase: appcontext.Applied, Commit: "c"}
	pending := appcontext.Pair{Key: key, Rev: 2, Registration: "new", Desired: "a", Held: digests("a"), Phase: appcontext.Pending, At: noon, Change: appcontext.Install}
	retrying := applied
	retrying.Phase, retrying.Applied, retrying.Commit, retrying.Attempt, retrying.Error, retrying.Change = appcontext.Retrying, "", "", 2, "away", appcontext.Install
	for _, c := range []struct {
		name string
		wish Desired
		have []appcontext.Pair
		want []appcontext.Pair
	}{
		{"what is new is for the cluster that is registered", registeredAs("new", "a", 2), nil, []appcontext.Pair{pending}},
		{"what holds on the same cluster is left alone", registeredAs("old", "a", 2), []appcontext.Pair{applied}, nil},
		{"nothing is known of a cluster that is not registered", wants("a"), []appcontext.Pair{applied}, nil},
		{
			"a new cluster of the same name is new to a revision that was requested later",
			registeredAs("new", "a", 2),
			[]appcontext.Pair{applied},
			[]appcontext.Pair{pending},
		},
		{
			"what was requested earlier stays meant for the earlier cluster, and is not proved",
			registeredAs("new", "a", 1),
			[]appcontext.Pair{applied},
			[]appcontext.Pair{{Key: key, Rev: 1, Registration: "old", Desired: "a", Held: digests("a"), Phase: appcontext.Pending, At: noon, Change: appcontext.Install}},
		},
		{
			"what is to go is looked for",
			Desired{Deployment: "7", Rev: 2},
			[]appcontext.Pair{applied},
			[]appcontext.Pair{{Key: key, Rev: 2, Registration: "old", Applied: "a", Held: digests("a"), Phase: appcontext.Deleting, Commit: "c", At: noon, Change: appcontext.Remove, From: "a"}},
		},
	} {
		if got := Diff(c.wish, c.have, noon); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", c.name, got, c.want)
		}
	}
	if got := registeredAs("new", "a", 1).withRegistration(retrying); got.Registration != "old" || got.Phase != appcontext.Retrying {
		t.Errorf("a pair that is tried again is now for %s, and %s", got.Registration, got.Phase)
	}
}

func TestOtherRegistrationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pair    appcontext.Pair
		refused bool
	}{
		"meant for the one before":       {appcontext.Pair{Registration: "old", Desired: "a"}, true},
		"meant for this one":             {appcontext.Pair{Registration: "new", Desired: "a"}, false},
		"from before there were ids":     {appcontext.Pair{Desired: "a"}, false},
		"to go from whichever it is now": {appcontext.Pair{Registration: "old"}, false},
	} {
		if err := CheckRegistration("edge+c1", &c.pair, c.pair.Registration, "new"); errs.Is(err, errs.Invalid) != c.refused {
			t.Errorf("%s: got %v, want it refused: %v", name, err, c.refused)
		}
	}
}
