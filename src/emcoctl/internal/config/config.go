// Package config finds out which address serves which anchor: from one address
// given by flag or environment, or from EMCO's configuration file with a section
// per service.
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

// DefaultServer is where the program emco listens unless told otherwise.
const DefaultServer = "http://127.0.0.1:9015"

// ServerFlags is what the user said about where to go; the first that is set wins.
type ServerFlags struct {
	Server string // --server
	File   string // --config
	Env    string // $EMCO_URL
	Home   string // the directory of .emco.yaml
	CAFile string // --ca-file or $EMCO_CA_FILE; stands before what a file says
}

// Address is where one service is.
type Address struct {
	URL    string
	CAFile string
}

// Servers knows the address of each service.
type Servers struct {
	// Notice is EMCO's first line of output, which says where the addresses are from.
	Notice   string
	single   *Address
	sections map[anchor.Section]Address
}

// titles are how EMCO's client names its sections.
var titles = map[anchor.Section]string{
	anchor.Ingress: "Ingress", anchor.Orchestrator: "Orchestrator", anchor.Clm: "Clm", anchor.Ncm: "Ncm",
	anchor.Dcm: "Dcm", anchor.Rsync: "Rsync", anchor.OvnAction: "OvnAction", anchor.Gac: "Gac",
	anchor.Dtc: "Dtc", anchor.HpaPlacement: "HpaPlacement", anchor.Sfc: "Sfc", anchor.SfcClient: "SfcClient",
	anchor.WorkflowMgr: "WorkflowMgr", anchor.Tac: "Tac", anchor.CaCert: "CaCert", anchor.Policy: "Policy",
}

// Load decides. The error is Invalid for a file that cannot be read or an address
// that cannot be one, Malformed for a file that cannot be parsed.
func Load(c ServerFlags) (Servers, error) {
	switch {
	case c.Server != "":
		return one(c.Server, c.CAFile, "Using server: ")
	case c.File != "":
		return fromFile(c.File, c.CAFile)
	case c.Env != "":
		return one(c.Env, c.CAFile, "Using server: ")
	}
	file := filepath.Join(c.Home, ".emco.yaml")
	if _, err := os.Stat(file); c.Home != "" && !errors.Is(err, fs.ErrNotExist) {
		return fromFile(file, c.CAFile)
	}
	s, err := one(DefaultServer, c.CAFile, "")
	s.Notice = "Warning: No Configuration File found. Using defaults"
	return s, err
}

// one makes all services be at one address.
func one(address, ca, notice string) (Servers, error) {
	base, err := client.ParseBase(address)
	if err != nil {
		return Servers{}, err
	}
	return Servers{Notice: notice + base, single: &Address{URL: base, CAFile: ca}}, nil
}

// fileSection is one part of the file. Scheme and caFile are additions to EMCO's form,
// and so is a host that begins with https://.
type fileSection struct {
	Host   string
	Port   string
	Scheme string
	CAFile string
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// fromFile reads EMCO's sections. Those without host or port are as if not there; an
// ingress stands for all.
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
	s := Servers{Notice: "Using config file: " + file, sections: map[anchor.Section]Address{}}
	for key, node := range raw {
		name := anchor.Section(strings.ToLower(key))
		if _, known := titles[name]; !known {
			continue // EMCO ignores what it does not know
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

// withCA lets the user's own choice of authorities stand before the file's.
func withCA(a Address, ca string) Address {
	if ca != "" {
		a.CAFile = ca
	}
	return a
}

// readSection makes an address of a section; it is not ok if host or port is
// missing, which EMCO treats as if the section were not there.
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

// url joins scheme, host and port. The host may carry a scheme, which EMCO has not.
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
// service, and a *MissingSection if the file does not say where the service is.
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
	if !ok {
		return Address{}, &MissingSection{Section: section}
	}
	return address, nil
}

// MissingSection says that the configuration file lacks a service.
type MissingSection struct{ Section anchor.Section }

// Error is EMCO's text.
func (m *MissingSection) Error() string {
	return "Fatal: No " + titles[m.Section] + " Information in Config File"
}
