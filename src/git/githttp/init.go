package githttp

import (
	"errors"
	"os"
	"path/filepath"
)

// Init makes a bare repository that refuses what an orchestrator must not do
// (rewind branches, send broken objects) and allows what it needs (partial fetches).
// It writes what "git init" writes, without starting a process.
func Init(dir, branch string) error {
	for _, below := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "config"), []byte(settings), 0o644),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/"+branch+"\n"), 0o644), // last: now it is a repository
	)
}

// settings are the configuration of a repository. The command for alternate references saves a
// process per push: the objects of a push are quarantined, and the repository itself counts as an
// alternate, whose references git would list.
const settings = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	alternateRefsCommand = true
[receive]
	denyNonFastForwards = true
	denyDeletes = true
	fsckObjects = true
	autogc = false
[gc]
	auto = 0
[fastimport]
	unpackLimit = 0
[http]
	receivepack = true
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
`
