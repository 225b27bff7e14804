// Package git defines Host, the interface to a Git server, and the interfaces that some hosts have besides, such as
// Proposer. Packages plain, github and gitlab implement them. It also has what all hosts share: the rules for
// URLs, branch names and paths of edits, and the text of commit messages and commit objects.
//
// The control plane, and the monitor on a shared branch, write through package batch. On a branch of its own the
// monitor writes directly. Operators reset branches by BranchResetter, and so does package batch those of proposals.
//
// Hosts use no work tree: they read the trees that they need and build new objects bottom-up. Commit
// moves a branch by compare-and-swap and never forces; Replace and ResetBranch may leave its history.
package git

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"
)

// Hash names a Git object, in hexadecimal. The zero Hash means "no object": as a
// parent it asks for the first commit of a branch that does not exist yet.
type Hash string

// Secret is a credential. It never prints: only Reveal gives it.
type Secret string

// Reveal returns the credential itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the credential.
func (s Secret) String() string { return "***" }

// GoString hides the credential.
func (s Secret) GoString() string { return "***" }

// MarshalJSON hides the credential.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

// LogValue hides the credential.
func (s Secret) LogValue() slog.Value { return slog.StringValue("***") }

// Repo is a repository and how to get at it.
type Repo struct {
	URL        string // http(s)://, ssh:// or scp-like; file:// only where the host allows it; see CheckURL
	User       string // login name; for token hosts any non-empty name will do; empty means "git" for ssh
	Token      Secret // password or token for http(s)
	SSHKey     Secret // private key in PEM for ssh
	KnownHosts string // known_hosts lines for ssh; mandatory there
	CA         string // PEM certificates to trust besides the system's, for https
	ClientCert string // PEM certificate that this client presents, for https; empty: none
	ClientKey  Secret // its private key in PEM
	SSHProgram bool   // ssh:// goes through the ssh program and its operator's configuration
	Provider   string // whose own API is used: "github", "gitlab"; empty: Git's own protocol
	API        string // URL of the provider's API, https://host/path; empty: the default for URL
	App        App    // acts instead of a user, for providers that support it; zero: none
}

// App is an application that is registered with a provider and installed in an account there.
// It signs requests with its key and gets tokens that last for an hour.
type App struct {
	ID           string // decimal number, or the client id
	Installation int64  // in the account that the repository belongs to
	Key          Secret // private RSA key in PEM
}

// Entry is one file or directory below the path that was asked for.
type Entry struct {
	Path string // slash-separated, from the root of the repository
	Mode uint32 // Git's file mode, such as 0o100644 or 0o040000
	ID   Hash
}

// Edit is the content of one owned path after a commit: File, or a directory that
// holds exactly the files of Dir, or nothing, when both are nil. A Dir
// without files is the same as nothing, since Git keeps no empty directories.
//
// Paths keep the rules of CheckPath, and no two edits of a commit may overlap
// (CheckEdits). Neither the slices nor the map may change until the commit is
// answered. Edits that share slices or maps are cheap: equal content is hashed once.
type Edit struct {
	Path string
	File []byte            // content of a regular file; empty but non-nil is an empty file
	Dir  map[string][]byte // files below Path, by path relative to it
}

// Message describes a commit and how it is made.
type Message struct {
	Title    string    // one line
	Trailers []Trailer // in this order, after a blank line
	Author   string    // "Name <mail>"; DefaultAuthor when empty
	When     time.Time // now when zero; kept to the second, in UTC
	Signer   Signer    // nil: the commit is not signed
	DryRun   bool      // nothing is sent: a commit that would be made fails with ErrDryRun

	// Guard is called right before the branch is moved, when all else is ready. Its error
	// ends the commit and is returned unchanged; nothing was sent then. It may be nil.
	Guard func(context.Context) error
}

// ErrDryRun reports that the edits of a dry run would change something.
var ErrDryRun = errors.New("the edits change something; a dry run sends nothing")

// Trailer is one "Key: value" line at the end of a commit message.
type Trailer struct{ Key, Value string }

// Host is a Git server or a bare repository. It allows concurrent use. Errors are classified: NotFound for a missing branch
// or object, Conflict for a lost race, Unauthorized and Forbidden for refused
// credentials or protected branches, Throttled with the time to come back,
// Unavailable for anything the network does, Invalid for input that can never
// work; an Invalid that one path causes wraps a *PathError. After
// Unavailable a commit may or may not have happened. No error text holds a credential.
type Host interface {
	// Head returns the commit that branch points at; NotFound if there is no such branch.
	Head(ctx context.Context, r Repo, branch string) (Hash, error)
	// Tree lists the entries below a path, in byte order of the paths: files, symbolic links and
	// submodules, but not directories. A path that is itself a file is listed alone, an
	// absent one yields nothing, "" is the whole tree. It ends at the first error.
	Tree(ctx context.Context, r Repo, at Hash, under string) iter.Seq2[Entry, error]
	// Blob returns a file's content; NotFound if there is no such object.
	Blob(ctx context.Context, r Repo, id Hash) ([]byte, error)
	// Commit puts one commit with edits on top of parent and moves branch from parent to it.
	// When the edits change nothing it returns parent and writes nothing; it may read. It returns Conflict,
	// and leaves the branch alone, if the branch is no longer at parent. It never forces.
	//
	// Files outside of the edits survive. An edit whose path is, or is below, a symbolic link
	// or a submodule, or is below a file, is refused as Invalid. Files that are there already
	// keep their mode when their content is replaced; new ones are ordinary files.
	Commit(ctx context.Context, r Repo, branch string, parent Hash, edits []Edit, m Message) (Hash, error)
}
