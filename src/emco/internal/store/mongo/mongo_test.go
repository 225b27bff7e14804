package mongo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/mongo"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// database returns the server of EMCO_MONGO_URI and a database of its own, which the test removes. Without
// that variable the test is skipped.
func database(t *testing.T) (uri, name string) {
	t.Helper()
	uri = os.Getenv("EMCO_MONGO_URI")
	if uri == "" {
		t.Skip("set EMCO_MONGO_URI to the address of a server, such as mongodb://127.0.0.1:27017/")
	}
	name = "emco_test_" + strings.ToLower(rand.Text()[:10])
	client, err := driver.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ Version string }
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info); err != nil {
		t.Fatal(err)
	}
	t.Logf("the server says that it is version %s", info.Version)
	t.Cleanup(func() {
		_ = client.Database(name).Drop(context.WithoutCancel(t.Context()))
		_ = client.Disconnect(context.WithoutCancel(t.Context()))
	})
	return uri, name
}

func open(t *testing.T, uri, name string) (*mongo.Driver, *mongo.Blobs) {
	t.Helper()
	d, b, err := mongo.Open(t.Context(), uri, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, b
}

func TestTheContractHolds(t *testing.T) {
	t.Parallel()
	uri, name := database(t)
	if err := storetest.Check(t.Context(), func() (store.Driver, error) { d, _, err := mongo.Open(t.Context(), uri, name); return d, err }); err != nil {
		t.Error(err)
	}
}

// The same with the reads and writes of a replica set; a single server accepts them.
func TestTheContractHoldsWithTheCommandsOfAReplicaSet(t *testing.T) {
	t.Parallel()
	uri, name := database(t)
	open(t, uri, name) // makes the indexes
	if err := storetest.Check(t.Context(), func() (store.Driver, error) { return mongo.OpenReplicated(uri, name) }); err != nil {
		t.Error(err)
	}
}

func TestTheContractForPackagesHolds(t *testing.T) {
	t.Parallel()
	uri, name := database(t)
	if err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) { _, b := open(t, uri, name); return b, nil }); err != nil {
		t.Error(err)
	}
}

// A writer that never makes the write that it announced stops no follower: its document is raised, and the
// late write fails.
func TestAnAnnouncedWriteThatIsOverdueFails(t *testing.T) {
	t.Parallel()
	uri, name := database(t)
	d, _ := open(t, uri, name)
	if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 1}, 0); err != nil {
		t.Fatal(err)
	}
	begin, err := d.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Announce(t.Context(), "a", 1, 2, -2*mongo.Overdue); err != nil {
		t.Fatal(err)
	}
	told, err := d.Changes(t.Context(), begin.Mark)
	if err != nil || told.All || len(told.Keys) != 1 || told.Mark <= begin.Mark {
		t.Errorf("changes: %+v, %v", told, err)
	}
	if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 2}, 1); !errs.Is(err, errs.Conflict) {
		t.Errorf("the late write: %v", err)
	}
}

// droppedPool is an error of the client's connections, as the client has one that others cannot make.
type droppedPool struct{}

func (droppedPool) Error() string   { return "the connections were dropped" }
func (droppedPool) Retryable() bool { return true }

// What keeps requests from the server is Unavailable, also before a request has a connection; other errors are faults.
func TestErrorsOnTheWayToTheServer(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for _, err := range []error{
		droppedPool{},
		fmt.Errorf("list: %w", droppedPool{}), refused,
		topology.ConnectionError{ConnectionID: "a", Wrapped: refused},
		topology.ConnectionError{ConnectionID: "a", Wrapped: io.EOF},
		topology.ServerSelectionError{Wrapped: context.DeadlineExceeded},
		context.Canceled,
	} {
		if got := errs.KindOf(mongo.Classify(err)); got != errs.Unavailable {
			t.Errorf("%v: %s, want unavailable", err, got)
		}
	}
	for _, err := range []error{errors.New("no such index"), driver.CommandError{Code: 2, Message: "bad value"}} {
		if got := errs.KindOf(mongo.Classify(err)); got != errs.Internal {
			t.Errorf("%v: %s, want internal", err, got)
		}
	}
}

func TestAWrongURIIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"http://h", "mongodb://u:planted@/", "mongodb://u:planted@h/?tls=true&tlsCAFile=/nowhere"} {
		if err := mongo.CheckURI(uri); !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "planted") {
			t.Errorf("CheckURI(%s) = %v", uri, err)
		}
	}
}
