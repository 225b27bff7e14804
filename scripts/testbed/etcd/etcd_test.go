package etcd

import (
	"os"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
)

func TestMembersListenOnLoopbackAndStoreInTheFolder(t *testing.T) {
	all := Options{Dir: "/bed", Members: 2, WithoutFsync: true}.plan([]int{20001, 20002, 20003, 20004})
	if len(all) != 2 || all[0].endpoint != "http://127.0.0.1:20001" || all[1].name != "etcd2" {
		t.Fatalf("members %+v", all)
	}
	for _, want := range []string{
		"--data-dir=/bed/etcd-data/etcd2", "--listen-client-urls=http://127.0.0.1:20002", "--listen-peer-urls=http://127.0.0.1:20004",
		"--initial-cluster=etcd1=http://127.0.0.1:20003,etcd2=http://127.0.0.1:20004", "--unsafe-no-fsync",
	} {
		if !slices.Contains(all[1].args, want) {
			t.Errorf("arguments lack %s: %q", want, all[1].args)
		}
	}
	if args := (Options{Dir: "/bed", Members: 1}).plan([]int{1, 2})[0].args; slices.Contains(args, "--unsafe-no-fsync") {
		t.Errorf("a member does not wait for the disk: %q", args)
	}
}

func TestMembersOnHostsReachEachOtherByANetwork(t *testing.T) {
	all := Options{
		Dir: "/bed", Members: 2, Hosts: []Host{{Data: "/disk1"}, {Data: "/disk2"}},
		Peers: func(listen []string) []string { return []string{listen[0] + "0", listen[1] + "0"} },
	}.plan([]int{2001, 2002, 2003, 2004})
	for _, want := range []string{
		"--data-dir=/disk2/2002", "--listen-peer-urls=http://127.0.0.1:2004", "--initial-advertise-peer-urls=http://127.0.0.1:20040",
		"--initial-cluster=etcd1=http://127.0.0.1:20030,etcd2=http://127.0.0.1:20040",
	} {
		if !slices.Contains(all[1].args, want) {
			t.Errorf("arguments lack %s: %q", want, all[1].args)
		}
	}
}

func TestThreeMembersStartAndEnd(t *testing.T) {
	if os.Getenv("EMCO_TESTBED") != "1" {
		t.Skip("set EMCO_TESTBED=1 to run a real etcd; the first run builds it")
	}
	builder, err := build.New(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), builder, Options{Dir: t.TempDir(), Members: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exited(); err != nil || len(c.Endpoints()) != 3 || len(c.PIDs()) != 3 {
		t.Errorf("endpoints %v, processes %v, %v", c.Endpoints(), c.PIDs(), err)
	}
	before := c.PIDs()[1]
	if err := c.Restart(t.Context(), 1); err != nil || c.PIDs()[1] == before {
		t.Errorf("process %d after %d, %v", c.PIDs()[1], before, err)
	}
	c.Close()
	if c.Exited() == nil {
		t.Error("the members go on")
	}
}
