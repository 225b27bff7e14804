package syncobjects

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// hosted are the Git types with a provider's interface of their own, and where the
// provider's public service is. Upstream EMCO writes "github" to github.com only; with a url
// the same interface of a private installation is meant.
var hosted = map[string]string{
	"github": "https://github.com",
	"gitlab": "https://gitlab.com",
}

// readGit reads the Git keys of an object.
func readGit(p keyValues, rules Rules) (Settings, error) {
	s := Settings{
		Name:   p.kv[keyRepoName],
		Branch: p.kv[keyBranch],
		Repo: git.Repo{
			User:       p.kv[keyUser],
			Token:      git.Secret(p.kv[keyToken]),
			SSHKey:     git.Secret(p.kv[keySSHKey]),
			KnownHosts: p.kv[keyKnownHosts],
			CA:         p.kv[keyCA],
			ClientCert: p.kv[keyClientCert],
			ClientKey:  git.Secret(p.kv[keyClientKey]),
		},
	}
	if kind := strings.ToLower(p.kv[keyGitType]); hosted[kind] != "" {
		s.Repo.Provider = kind
	}
	if s.Branch == "" {
		s.Branch = DefaultBranch
	}
	address := address(p, s)
	if address == "" {
		return Settings{}, lacks(p.name, missing(p, "https"))
	}
	u, err := rules.check(address)
	if err != nil {
		return Settings{}, invalid(p.name, fmt.Errorf("%s: %w", keyURL, err))
	}
	if err := lacks(p.name, missing(p, u.scheme)); err != nil {
		return Settings{}, err
	}
	s.Repo.URL = u.text
	if s.Name == "" {
		s.Name = strings.TrimSuffix(path.Base(u.path), ".git")
	}
	if u.scheme == "ssh" {
		s.Repo.User, err = login(u.user, s.Repo.User)
	}
	if err == nil {
		s.Propose, err = readProtected(p, s)
	}
	if err == nil {
		s.Hold, err = readExternalEdit(p)
	}
	if err == nil {
		s.Repo.API, err = readAPI(p, s, rules)
	}
	if err == nil {
		err = checkGit(s)
	}
	if err == nil {
		s.Repo.App, err = readApp(p)
	}
	if err == nil {
		s.Repo.SSHProgram, err = readSSHClient(p, u.scheme)
	}
	if err != nil {
		return Settings{}, invalid(p.name, err)
	}
	return s, nil
}

// CheckURL refuses an object whose URL the clusters of no sync type could use. It is for new objects, whose author learns of it before a
// cluster names them; Read has all rules, which depend on the sync type. Errors are Invalid.
func CheckURL(o Object, rules Rules) error {
	p, err := merge("", o)
	if err != nil || p.kv[keyURL] == "" {
		return err
	}
	if p.kv[keyGitType] == "" && p.kv[keyRepoName] == "" && p.kv[keyBranch] == "" { // it may be a registry
		rules = rules.anyTransport()
	}
	if _, err := rules.check(registryAddress(p.kv[keyURL])); err != nil {
		return invalid(p.name, fmt.Errorf("%s: %w", keyURL, err))
	}
	return nil
}

// readExternalEdit reports whether external edits of owned files are kept.
func readExternalEdit(p keyValues) (hold bool, err error) {
	switch value := p.kv[keyExternalEdit]; {
	case value == "", strings.EqualFold(value, "overwrite"):
		return false, nil
	case strings.EqualFold(value, "hold"):
		return true, nil
	}
	return false, fmt.Errorf("%s is not one of overwrite, hold", keyExternalEdit)
}

// readAPI returns where the provider's interface is, if it is not where it usually is.
func readAPI(p keyValues, s Settings, rules Rules) (string, error) {
	given := p.kv[keyAPI]
	if given == "" {
		return "", nil
	}
	if s.Repo.Provider == "" {
		return "", fmt.Errorf("%s goes with a %s of github or gitlab", keyAPI, keyGitType)
	}
	at, err := rules.checkAPI(given)
	if err != nil {
		return "", fmt.Errorf("%s: %w; write it as https://host/api/v4", keyAPI, err)
	}
	return at, nil
}

// readSSHClient reports whether a repository is reached through the ssh program. The key engine, which
// sshClient superseded, is still read: its value fast-import means the ssh program where the
// repository is reached by ssh, and nothing elsewhere.
func readSSHClient(p keyValues, scheme string) (program bool, err error) {
	switch strings.ToLower(p.kv[keyEngine]) {
	case "", "direct":
	case "fast-import":
		program = scheme == "ssh"
	default:
		return false, fmt.Errorf("%s is superseded by %s; leave it out", keyEngine, keySSHClient)
	}
	switch value := strings.ToLower(p.kv[keySSHClient]); {
	case value == "":
		return program, nil
	case value != "builtin" && value != "program":
		return false, fmt.Errorf("%s is not one of builtin, program", keySSHClient)
	case scheme != "ssh":
		return false, fmt.Errorf("%s needs a %s with ssh://", keySSHClient, keyURL)
	default:
		return value == "program", nil
	}
}

// readProtected reports whether a protected branch gets a pull or merge request.
func readProtected(p keyValues, s Settings) (bool, error) {
	switch value := p.kv[keyProtected]; {
	case value == "", strings.EqualFold(value, "fail"):
		return false, nil
	case !strings.EqualFold(value, "pullRequest"):
		return false, fmt.Errorf("%s is not one of fail, pullRequest", keyProtected)
	case s.Repo.Provider == "":
		return false, fmt.Errorf("%s pullRequest needs a %s that has pull or merge requests: github or gitlab", keyProtected, keyGitType)
	}
	return true, nil
}

// address returns the repository's URL. A hosted repository may be given by owner
// and name alone, as in upstream EMCO; userName is the owner then.
func address(p keyValues, s Settings) string {
	if given := p.kv[keyURL]; given != "" {
		return given
	}
	if base := hosted[s.Repo.Provider]; base != "" && s.Repo.User != "" && s.Name != "" {
		return base + "/" + s.Repo.User + "/" + s.Name
	}
	return ""
}

// missing lists the keys that an object lacks for a repository of the given scheme.
func missing(p keyValues, scheme string) []string {
	need := map[string][]string{
		"http":  {keyURL, keyUser, keyToken},
		"https": {keyURL, keyUser, keyToken},
		"ssh":   {keyURL, keySSHKey, keyKnownHosts},
		"file":  {keyURL},
	}[scheme]
	if program, err := readSSHClient(p, scheme); err == nil && program {
		need = []string{keyURL} // the operator's configuration of ssh may have the rest
	}
	if actsAsApp(p) && scheme != "ssh" && scheme != "file" {
		need = []string{keyURL, keyAppID, keyAppInstallation, keyAppKey}
	}
	derived := hosted[strings.ToLower(p.kv[keyGitType])] != "" && p.kv[keyUser] != "" && p.kv[keyRepoName] != ""
	var out []string
	for _, key := range need {
		if p.kv[key] == "" && (key != keyURL || !derived) {
			out = append(out, key)
		}
	}
	return out
}

// login returns the name to log in with by ssh: that of the URL, else userName, else "git".
func login(fromURL, userName string) (string, error) {
	if fromURL != "" && userName != "" && fromURL != userName {
		return "", fmt.Errorf("%s and the login name in %s differ", keyUser, keyURL)
	}
	for _, name := range []string{fromURL, userName} {
		if name != "" {
			return name, checkLogin(name)
		}
	}
	return "git", nil
}

// checkLogin refuses names that would change the address they become part of.
func checkLogin(name string) error {
	if strings.HasPrefix(name, "-") || strings.ContainsAny(name, "/@:?#%\\ ") {
		return fmt.Errorf("%s is not a login name for ssh", keyUser)
	}
	return nil
}

// checkGit refuses values that could change the meaning of what they are put into: a
// header, a command, or the name of a reference.
func checkGit(s Settings) error {
	for key, value := range map[string]string{keyUser: s.Repo.User, keyToken: s.Repo.Token.Reveal()} {
		if strings.ContainsFunc(value, control) {
			return fmt.Errorf("%s holds a control character", key)
		}
	}
	if err := checkBranch(s.Branch); err != nil {
		return fmt.Errorf("%s: %w", keyBranch, err)
	}
	return nil
}

// checkBranch keeps Git's rules for the names of branches.
func checkBranch(name string) error {
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || strings.HasPrefix(element, ".") || strings.HasSuffix(element, ".lock") {
			return errors.New("is not a name that Git allows")
		}
	}
	switch {
	case strings.ContainsFunc(name, control), strings.ContainsAny(name, " ~^:?*[\\"),
		strings.Contains(name, ".."), strings.Contains(name, "@{"), name == "@",
		strings.HasPrefix(name, "-"), strings.HasSuffix(name, "."), len(name) > 250:
		return errors.New("is not a name that Git allows")
	}
	return nil
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }
