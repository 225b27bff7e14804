// Package config holds the file of contexts, and finds the address of each anchor: one address from a flag, the
// environment or a context, or upstream's configuration file with a section per service.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

// DefaultServer is the default address of the program emco.
const DefaultServer = "http://127.0.0.1:9015"

// ServerFlags are the user's settings of addresses; the first that is set wins.
type ServerFlags struct {
	Server string // --server
	File   string // --config
	Env    string // $EMCO_URL
	Home   string // the directory of .emco.yaml
	CAFile string // --ca-file or $EMCO_CA_FILE; overrides the file

	Contexts Contexts
	Context  string // --context
}

// Address is the address of one service.
type Address struct {
	URL    string
	CAFile string
}

// Servers holds the address of each service.
type Servers struct {
	// Notice is upstream's first line of output, with the source of the addresses.
	Notice string
	// Upstream means that the addresses are from a configuration file in upstream's form.
	Upstream bool
	// Context is the name of the context that the address is from, if it is from one.
	Context  string
	single   *Address
	sections map[anchor.Section]Address
}

// titles are the names of sections in upstream's client.
var titles = map[anchor.Section]string{
	anchor.Ingress: "Ingress", anchor.Orchestrator: "Orchestrator", anchor.Clm: "Clm", anchor.Ncm: "Ncm",
	anchor.Dcm: "Dcm", anchor.Rsync: "Rsync", anchor.OvnAction: "OvnAction", anchor.Gac: "Gac",
	anchor.Dtc: "Dtc", anchor.HpaPlacement: "HpaPlacement", anchor.Sfc: "Sfc", anchor.SfcClient: "SfcClient",
	anchor.WorkflowMgr: "WorkflowMgr", anchor.Tac: "Tac", anchor.CaCert: "CaCert", anchor.Policy: "Policy",
}

// Load returns the addresses. The error is Invalid for an unreadable file or an invalid
// address, Malformed for a file that cannot be parsed.
func Load(c ServerFlags) (Servers, error) {
	switch {
	case c.Server != "":
		return one(c.Server, c.CAFile, "Using server: ")
	case c.File != "":
		return fromFile(c.File, c.CAFile)
	case c.Context != "":
		return fromContext(c.Contexts, c.Context, c.CAFile)
	case c.Env != "":
		return one(c.Env, c.CAFile, "Using server: ")
	case c.Contexts.Current != "":
		return fromContext(c.Contexts, c.Contexts.Current, c.CAFile)
	}
	file := filepath.Join(c.Home, ".emco.yaml")
	if _, err := os.Stat(file); c.Home != "" && !errors.Is(err, fs.ErrNotExist) {
		return fromFile(file, c.CAFile)
	}
	s, err := one(DefaultServer, c.CAFile, "")
	s.Notice = "Warning: No Configuration File found. Using defaults"
	return s, err
}

// fromContext returns the address of a context.
func fromContext(all Contexts, name, ca string) (Servers, error) {
	c, err := all.Get(name)
	if err != nil {
		return Servers{}, err
	}
	if ca == "" {
		ca = c.CAFile
	}
	s, err := one(c.Server, ca, "Using context "+name+": ")
	s.Context = name
	return s, err
}

// one returns one address for all services.
func one(address, ca, notice string) (Servers, error) {
	base, err := client.ParseBase(address)
	if err != nil {
		return Servers{}, err
	}
	return Servers{Notice: notice + base, single: &Address{URL: base, CAFile: ca}}, nil
}

// fileSection is one part of the file. Scheme and caFile are additions to upstream's form,
// and so is a host that begins with https://.
type fileSection struct {
	Host   string
	Port   string
	Scheme string
	CAFile string
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// fromFile reads upstream's sections. It ignores those without host or port; an ingress
// replaces all.
func fromFile(file, ca string) (Servers, error) {
	if ext := filepath.Ext(file); ext != ".yaml" && ext != ".yml" && ext != ".json" {
		return Servers{}, errs.E(errs.Invalid, "read configuration", file, errors.New("must be *.yaml, *.yml or *.json"))
	}
	text, err := read(file)
	if err != nil {
		return Servers{}, err
	}
	var raw map[string]yaml.Node
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return Servers{}, errs.E(errs.Malformed, "read configuration", file, err)
	}
	s := Servers{Notice: "Using config file: " + file, Upstream: true, sections: map[anchor.Section]Address{}}
	for key, node := range raw {
		name := anchor.Section(strings.ToLower(key))
		if _, known := titles[name]; !known {
			continue // upstream EMCO ignores unknown sections
		}
		address, ok, err := readSection(&node)
		if err != nil {
			return Servers{}, errs.E(errs.Invalid, "read configuration", file+": "+key, err)
		}
		if ok {
			s.sections[name] = withCA(address, ca)
		}
	}
	if ingress, ok := s.sections[anchor.Ingress]; ok {
		s.single = &ingress
	}
	return s, nil
}

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxFile {
		return nil, errs.E(errs.TooLarge, "read configuration", file, fmt.Errorf("above %d bytes", maxFile))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return nil, errs.E(errs.Invalid, "read configuration", file, err)
	}
	return text, nil
}

// withCA overrides the file's CA with the user's.
func withCA(a Address, ca string) Address {
	if ca != "" {
		a.CAFile = ca
	}
	return a
}

// readSection returns the address of a section; not ok if host or port is missing: upstream EMCO
// ignores such sections.
func readSection(node *yaml.Node) (Address, bool, error) {
	var members map[string]string
	if err := node.Decode(&members); err != nil {
		return Address{}, false, errors.New("must hold host and port")
	}
	var s fileSection
	for key, value := range members {
		switch strings.ToLower(key) {
		case "host":
			s.Host = value
		case "port":
			s.Port = value
		case "scheme":
			s.Scheme = value
		case "cafile":
			s.CAFile = value
		}
	}
	if s.Host == "" || s.Port == "" || s.Port == "0" {
		return Address{}, false, nil
	}
	url, err := s.url()
	return Address{URL: url, CAFile: s.CAFile}, err == nil, err
}

// url joins scheme, host and port. Unlike in upstream EMCO, the host may have a scheme.
func (s fileSection) url() (string, error) {
	if n, err := strconv.ParseUint(s.Port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", s.Port)
	}
	scheme, host := "http", strings.TrimSuffix(s.Host, "/")
	if before, after, ok := strings.Cut(host, "://"); ok {
		scheme, host = before, after
	}
	if s.Scheme != "" {
		scheme = s.Scheme
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]" // an IPv6 address
	}
	return client.ParseBase(scheme + "://" + host + ":" + s.Port)
}

// For returns the address for an anchor. The error is Invalid for an anchor of no
// service, and a *MissingSection if the file lacks the service.
func (s Servers) For(path string) (Address, error) {
	section, err := anchor.SectionOf(path)
	if err != nil {
		return Address{}, err
	}
	if err := anchor.Check(path); err != nil {
		return Address{}, err
	}
	if s.single != nil {
		return *s.single, nil
	}
	address, ok := s.sections[section]
	if !ok && section == anchor.Rsync { // upstream's files lack it: upstream's client asks rsync nothing
		address, ok = s.sections[anchor.Orchestrator]
	}
	if !ok {
		return Address{}, &MissingSection{Section: section}
	}
	return address, nil
}

// PerService reports whether the services have addresses of their own.
func (s Servers) PerService() bool { return s.single == nil }

// MissingSection is the error of a configuration file without a service's section.
type MissingSection struct{ Section anchor.Section }

// Error is upstream's text.
func (m *MissingSection) Error() string {
	return "Fatal: No " + titles[m.Section] + " Information in Config File"
}
