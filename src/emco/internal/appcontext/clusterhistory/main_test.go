package clusterhistory_test

import (
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

var must = etcdtest.Must
