package kubeapplier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

const (
	// userValid is how long a certificate of a logical cloud's user is asked for.
	userValid = 24 * time.Hour
	// userRenewal is how long before its end a certificate is replaced.
	userRenewal = time.Minute
)

// userConnections are the connections to one cluster as the users of logical clouds. Their keys
// are in memory only: another process, or a restart, has the cluster sign new certificates.
type userConnections struct {
	mu     sync.Mutex                // held while a certificate is signed: pairs of the cluster wait for it
	byUser map[string]userConnection // guarded by mu
}

type userConnection struct {
	cluster *kube.Cluster
	ends    time.Time
}

// as returns the connection for apps of a logical cloud: that of the registration, or that of the
// cloud's user. Apps of a confined cloud never use the registered credentials. Unavailable while
// the user has no certificate.
func (c *connection) as(ctx context.Context, cloud appcontext.Cloud) (*kube.Cluster, error) {
	if !cloud.Confined {
		return c.cluster, nil
	}
	if cloud.User == "" {
		return nil, errs.E(errs.Invalid, "connect", "logical cloud "+cloud.Name, errors.New("the revision names no user, and the registered credentials are not for its apps; update the deployment"))
	}
	c.users.mu.Lock()
	defer c.users.mu.Unlock()
	if u, ok := c.users.byUser[cloud.User]; ok && time.Until(u.ends) > userRenewal {
		return u.cluster, nil
	}
	as, ends, err := c.cluster.As(ctx, kube.User{Name: cloud.User, Valid: userValid})
	if err != nil {
		return nil, err
	}
	if old, ok := c.users.byUser[cloud.User]; ok {
		old.cluster.Close()
	}
	if c.users.byUser == nil {
		c.users.byUser = map[string]userConnection{}
	}
	c.users.byUser[cloud.User] = userConnection{as, ends}
	return as, nil
}

// close closes the connections.
func (u *userConnections) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.byUser {
		c.cluster.Close()
	}
}

// soon makes a refusal of a confined cloud's user temporary for a few attempts: role bindings
// that were just created take effect after a moment.
func soon(p appcontext.Pair, cloud appcontext.Cloud, err error) error {
	if err == nil || !cloud.Confined || p.Attempt+1 >= pair.MaxAttempts {
		return err
	}
	if errs.Is(err, errs.Forbidden) || errs.Is(err, errs.NotFound) {
		return errs.E(errs.Unavailable, "apply as", "the user of logical cloud "+cloud.Name, fmt.Errorf("the cloud may not be prepared yet: %s", err))
	}
	return err
}
