// Package config reads the settings of the monitor from flags and environment variables at its start, and the
// files with credentials for each report. Variables that upstream's monitor has too keep their names.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// The ways to report.
const (
	OwnBranch    = "ref"   // to the cluster's own branch
	SharedBranch = "path"  // to upstream's path on a shared branch
	HTTPS        = "https" // to the control plane
)

// Config has all settings.
type Config struct {
	Cluster    string
	Kubeconfig string

	URL, User, Type, Name string
	Token                 git.Secret
	TokenFile             string
	SSHKeyFile            string
	KnownHostsFile        string
	CAFile                string
	Branch                string

	ControlPlane                  string // address of the control plane, for HTTPS
	ReportToken                   git.Secret
	ReportTokenFile, ReportCAFile string

	Mode, Prefix        string
	Interval, Heartbeat time.Duration
	Limit               int
	States, Secrets     bool
	Capacity            time.Duration // between two reads of what nodes have free; 0: it is not reported
	Exclude             []string

	AliveFile  string
	CheckAlive bool // only check whether the running monitor is alive
	LogLevel   string
	LogFormat  string
}

// Read reads flags, and variables for flags that are not given. It writes the help to usage.
func Read(args []string, variable func(string) string, usage io.Writer) (Config, error) {
	var c Config
	var exclude string
	f := flag.NewFlagSet("monitor", flag.ContinueOnError)
	f.SetOutput(usage)
	variables := map[string]string{}
	set := func(name, env string) string { variables[name] = env; return name }
	help := func(name, text string) string {
		if env := variables[name]; env != "" {
			return text + " (" + env + ")"
		}
		return text
	}
	text := func(at *string, name, env, otherwise, what string) {
		f.StringVar(at, set(name, env), otherwise, help(name, what))
	}
	text(&c.Cluster, "cluster", "GIT_CLUSTERNAME", "", "the cluster as the control plane knows it: <provider>+<cluster>")
	text(&c.Kubeconfig, "kubeconfig", "KUBECONFIG", "", "kubeconfig of the cluster; default: the account of the pod")
	text(&c.URL, "git.url", "GIT_URL", "", "repository to report to")
	text(&c.User, "git.user", "GIT_USERNAME", "", "login name for the repository")
	text(&c.TokenFile, "git.tokenFile", "GIT_TOKEN_FILE", "", "file with the token, read for each report. GIT_TOKEN may hold the token itself")
	text(&c.SSHKeyFile, "git.sshKeyFile", "GIT_SSH_KEY_FILE", "", "file with the private key for ssh")
	text(&c.KnownHostsFile, "git.knownHostsFile", "GIT_KNOWN_HOSTS_FILE", "", "file with the known hosts for ssh")
	text(&c.CAFile, "git.caFile", "GIT_CA_FILE", "", "file with certificates to trust, in addition to the system's")
	text(&c.Branch, "git.branch", "GIT_BRANCH", "main", "shared branch, for -status.mode=path")
	text(&c.Type, "git.type", "GIT_TYPE", "", "for compatibility with upstream EMCO: with github and a repository name, the URL may be omitted")
	text(&c.Name, "git.repo", "GIT_REPO", "", "name of the repository, for -git.type=github")
	text(&c.Mode, "status.mode", "STATUS_MODE", OwnBranch, "ref: a branch of the cluster; path: upstream's path on a shared branch; https: the control plane")
	text(&c.ControlPlane, "status.url", "STATUS_URL", "", "the control plane, for -status.mode=https: https://host")
	text(&c.ReportTokenFile, "status.tokenFile", "STATUS_TOKEN_FILE", "", "file with the cluster's token for the control plane, read for each report. STATUS_TOKEN may hold the token itself")
	text(&c.ReportCAFile, "status.caFile", "STATUS_CA_FILE", "", "file with certificates to trust for the control plane, in addition to the system's")
	text(&c.Prefix, "status.prefix", "STATUS_PREFIX", status.DefaultPrefix, "prefix of the branch of the cluster")
	f.DurationVar(&c.Interval, set("status.interval", "STATUS_INTERVAL"), 10*time.Second, help("status.interval", "shortest time between two reports"))
	f.DurationVar(&c.Heartbeat, set("status.heartbeat", "STATUS_HEARTBEAT"), time.Minute, help("status.heartbeat", "longest time between two reports"))
	f.IntVar(&c.Limit, set("status.limit", "STATUS_LIMIT"), status.MaxSize, help("status.limit", "largest report, in bytes"))
	f.BoolVar(&c.States, set("resourceBundleStates", "RESOURCE_BUNDLE_STATES"), true, help("resourceBundleStates", "keep upstream's ResourceBundleState objects"))
	f.BoolVar(&c.Secrets, set("secrets", "WATCH_SECRETS"), false, help("secrets", "watch the metadata of Secrets; needs the right to list Secrets"))
	f.DurationVar(&c.Capacity, set("capacity.interval", "CAPACITY_INTERVAL"), 0, help("capacity.interval", "read what the nodes have free this often, and report it; 0: do not. Needs the right to list Nodes and Pods"))
	text(&exclude, "exclude", "EXCLUDE_KINDS", "", "kinds to ignore: Kind or Kind.group, separated by commas")
	text(&c.AliveFile, "alive.file", "ALIVE_FILE", "/tmp/monitor.alive", "file to touch while the monitor works; empty for none")
	f.BoolVar(&c.CheckAlive, "alive", false, "check the file of the running monitor; exit with 0 if it is alive, and with 1 if not")
	f.Bool("version", false, "print the version, the commit and the Go release")
	text(&c.LogLevel, "log.level", "LOG_LEVEL", "info", "debug, info, warn or error")
	text(&c.LogFormat, "log.format", "LOG_FORMAT", "json", "json or text")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q; see -help", f.Arg(0))
	}
	if err := fromVariables(f, variables, variable); err != nil {
		return c, err
	}
	c.Token, c.ReportToken = git.Secret(variable("GIT_TOKEN")), git.Secret(variable("STATUS_TOKEN"))
	c.Exclude = split(exclude)
	return c, c.validate()
}

// fromVariables sets flags that were not given.
func fromVariables(f *flag.FlagSet, variables map[string]string, variable func(string) string) error {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	var errs []error
	f.VisitAll(func(x *flag.Flag) {
		env := variables[x.Name]
		if given[x.Name] || env == "" || variable(env) == "" {
			return
		}
		if err := f.Set(x.Name, variable(env)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not a value of %s", env, variable(env), x.Name))
		}
	})
	return errors.Join(errs...)
}

func split(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// validate returns all faults, joined.
func (c *Config) validate() error {
	if c.CheckAlive {
		return nil
	}
	if c.URL == "" && c.Type == "github" && c.User != "" && c.Name != "" {
		c.URL = "https://github.com/" + c.User + "/" + c.Name
	}
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := v2.ParseClusterKey(c.Cluster)
	bad(err == nil, "cluster: %q is not <provider>+<cluster>; set GIT_CLUSTERNAME", c.Cluster)
	bad(c.Mode == OwnBranch || c.Mode == SharedBranch || c.Mode == HTTPS, "status.mode: %q is none of %s, %s and %s", c.Mode, OwnBranch, SharedBranch, HTTPS)
	bad(c.Interval > 0, "status.interval: must be above zero")
	bad(c.Heartbeat >= c.Interval, "status.heartbeat: must not be below status.interval")
	bad(c.Capacity == 0 || c.Capacity >= time.Second, "capacity.interval: must be 0, or a second or more")
	bad(c.Limit > 0 && c.Limit <= status.MaxSize, "status.limit: must be above zero and at most %d", status.MaxSize)
	bad(c.LogFormat == "json" || c.LogFormat == "text", "log.format: %q is neither json nor text", c.LogFormat)
	if c.Mode == HTTPS {
		bad(c.ControlPlane != "", "status.url: name the control plane to report to; set STATUS_URL")
		bad(c.ReportToken != "" || c.ReportTokenFile != "", "status.tokenFile: name the file with the cluster's token; set STATUS_TOKEN_FILE")
		return errors.Join(errs...)
	}
	if c.URL == "" {
		errs = append(errs, errors.New("git.url: name the repository to report to; set GIT_URL"))
	} else if err := git.CheckURL(c.URL, false); err != nil {
		errs = append(errs, fmt.Errorf("git.url: %w", err))
	}
	branch := c.Branch
	if c.Mode == OwnBranch {
		branch = status.Branch(c.Prefix, c.Cluster)
	}
	if err := git.CheckBranch(branch); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CredentialsID identifies the current content of the files with credentials and trusted
// certificates. A file that cannot be read counts as empty.
func (c Config) CredentialsID() string {
	sum := sha256.New()
	for _, path := range []string{c.ReportTokenFile, c.ReportCAFile, c.TokenFile, c.SSHKeyFile, c.KnownHostsFile, c.CAFile} {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ReportCredentials returns the current token and certificates for the control plane.
func (c Config) ReportCredentials() (token git.Secret, ca string, err error) {
	token = c.ReportToken
	if c.ReportTokenFile != "" {
		text, err := os.ReadFile(c.ReportTokenFile)
		if err != nil {
			return token, ca, err
		}
		token = git.Secret(strings.TrimSpace(string(text)))
	}
	if c.ReportCAFile != "" {
		text, err := os.ReadFile(c.ReportCAFile)
		return token, string(text), err
	}
	return token, "", nil
}

// Repository returns the repository with its current credential.
func (c Config) Repository() (git.Repo, error) {
	r := git.Repo{URL: c.URL, User: c.User, Token: c.Token}
	for _, f := range []struct {
		path string
		take func(string)
	}{
		{c.TokenFile, func(s string) { r.Token = git.Secret(strings.TrimSpace(s)) }},
		{c.SSHKeyFile, func(s string) { r.SSHKey = git.Secret(s) }},
		{c.KnownHostsFile, func(s string) { r.KnownHosts = s }},
		{c.CAFile, func(s string) { r.CA = s }},
	} {
		if f.path == "" {
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			return r, err
		}
		f.take(string(text))
	}
	return r, nil
}
