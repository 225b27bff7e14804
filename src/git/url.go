package git

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Address is a repository URL taken apart.
type Address struct {
	Scheme string // http, https, ssh or file
	User   string // only for ssh, and only if the URL names one
	Host   string // without port; empty for file
	Port   string // empty for the scheme's own
	Path   string // as the server is to read it
}

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+)$`)
	loginRE  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	scpLike  = regexp.MustCompile(`^(?:([^@/:]+)@)?(\[[0-9A-Fa-f:.]+\]|[^@/:]+):([^:].*)$`)
)

// CheckURL returns Invalid unless a host may dial a repository URL: http, https, ssh:// or scp-like
// (user@host:path), and file:// if allowFile. Remote helpers ("ext::…"), options ("-o…"), queries
// and passwords are refused, and so is any userinfo of an http URL: credentials belong into Repo.
// The error does not hold the URL, which may hold a secret.
func CheckURL(raw string, allowFile bool) error {
	a, err := ParseURL(raw)
	if err != nil {
		return err
	}
	if a.Scheme == "file" && !allowFile {
		return badURL("file:// is not allowed here")
	}
	return nil
}

// ParseURL takes a repository URL apart; it keeps the rules of CheckURL with
// files allowed.
func ParseURL(raw string) (Address, error) {
	switch {
	case raw == "":
		return Address{}, badURL("empty")
	case len(raw) > maxPath:
		return Address{}, badURL("too long")
	case raw[0] == '-':
		return Address{}, badURL("starts with a hyphen")
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return Address{}, badURL("holds a blank or a control character")
	case strings.Contains(raw, "://"):
		return parseFull(raw)
	}
	m := scpLike.FindStringSubmatch(raw)
	if m == nil {
		return Address{}, badURL("neither http(s)://, ssh:// nor user@host:path")
	}
	return checkSSH(Address{Scheme: "ssh", User: m[1], Host: strings.Trim(m[2], "[]"), Path: m[3]})
}

func parseFull(raw string) (Address, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Address{}, badURL("malformed")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
		return Address{}, badURL("holds a query or a fragment")
	}
	a := Address{Scheme: strings.ToLower(u.Scheme), Host: u.Hostname(), Port: u.Port(), Path: u.Path}
	switch a.Scheme {
	case "http", "https":
		if u.User != nil {
			return Address{}, badURL("holds a user or password; give them apart")
		}
		return checkHost(a)
	case "ssh":
		if _, secret := u.User.Password(); secret {
			return Address{}, badURL("holds a password; give a key apart")
		}
		if u.User != nil {
			a.User = u.User.Username()
		}
		return checkSSH(a)
	case "file":
		if u.User != nil || u.Host != "" || len(a.Path) < 2 {
			return Address{}, badURL("file:// must name an absolute path and no host")
		}
		return a, nil
	}
	return Address{}, badURL("scheme is none of http, https, ssh")
}

func checkSSH(a Address) (Address, error) {
	if a.User != "" && !loginRE.MatchString(a.User) {
		return Address{}, badURL("user holds a character that is not allowed")
	}
	if strings.HasPrefix(strings.TrimPrefix(a.Path, "/"), "-") {
		return Address{}, badURL("path starts with a hyphen")
	}
	return checkHost(a)
}

func checkHost(a Address) (Address, error) {
	if !hostName.MatchString(a.Host) {
		return Address{}, badURL("no host, or one that is not allowed")
	}
	if a.Port != "" {
		if n, err := strconv.Atoi(a.Port); err != nil || n < 1 || n > 65535 {
			return Address{}, badURL("port out of range")
		}
	}
	if strings.Trim(a.Path, "/") == "" {
		return Address{}, badURL("names no repository")
	}
	for element := range strings.SplitSeq(a.Path, "/") {
		if element == ".." || element == "." {
			return Address{}, badURL("path is not clean")
		}
	}
	return a, nil
}

func badURL(why string) error {
	return errs.E(errs.Invalid, "repository", "URL", errors.New(why))
}
