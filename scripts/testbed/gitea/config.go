package gitea

import (
	"fmt"
	"os"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
)

// settings switch off features that tests do not need: mail, ssh, large files, periodic jobs, actions,
// search. The folder of a built part contains templates and locales.
const settings = `APP_NAME = test bed
RUN_MODE = prod
WORK_PATH = %[1]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true

[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]d
ROOT_URL = %[3]s/
STATIC_ROOT_PATH = %[4]s
OFFLINE_MODE = true
DISABLE_SSH = true
LFS_START_SERVER = false

[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db

[repository]
ROOT = %[1]s/repositories

[security]
INSTALL_LOCK = true
PASSWORD_HASH_ALGO = pbkdf2$1$20

[service]
DISABLE_REGISTRATION = true

[indexer]
ISSUE_INDEXER_TYPE = db

[log]
MODE = console
LEVEL = Warn

[actions]
ENABLED = false

[mailer]
ENABLED = false

[cron]
ENABLED = false
`

// configure writes the settings of a server on a port.
func (g *Gitea) configure(on int) error {
	g.url = "http://" + port.Address(on)
	return os.WriteFile(g.config(), fmt.Appendf(nil, settings, g.dir, on, g.url, g.part), 0o600)
}
