package guard

import (
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// maxNesting bounds the search for pods; package manifest reads no deeper documents.
const maxNesting = 100

// capabilities are those that container runtimes give anyway, as in the baseline of Kubernetes'
// Pod Security Standards.
var capabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// safeSysctls are the sysctls of the same baseline.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// checkPods checks each pod in a tree, wherever it is: custom kinds have pods in members of
// their own.
func (c *objectCheck) checkPods(value any, depth int) {
	if depth > maxNesting {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if isPod(v) {
			c.checkPod(v)
		}
		if v["hostPath"] != nil { // also of a PersistentVolume
			c.breach(v2.RuleHost, "mounts a folder of its node (hostPath)")
		}
		for _, member := range v {
			c.checkPods(member, depth+1)
		}
	case []any:
		for _, item := range v {
			c.checkPods(item, depth+1)
		}
	}
}

// isPod reports whether a tree looks like the spec of a pod.
func isPod(t map[string]any) bool {
	for _, member := range []string{"containers", "initContainers", "ephemeralContainers"} {
		if len(items(t[member])) > 0 {
			return true
		}
	}
	return false
}

func (c *objectCheck) checkPod(pod map[string]any) {
	for _, member := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if isSet(pod[member]) {
			c.breach(v2.RuleHost, "shares its node's resources (%s)", member)
		}
	}
	c.checkSecurity(pod["securityContext"])
	for _, s := range items(at(pod, "securityContext", "sysctls")) {
		if name, _ := s["name"].(string); !slices.Contains(safeSysctls, strings.ReplaceAll(name, "/", ".")) {
			c.breach(v2.RuleHost, "sets sysctl %s", name)
		}
	}
	for _, member := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, container := range items(pod[member]) {
			c.checkSecurity(container["securityContext"])
			for _, port := range items(container["ports"]) {
				if isSet(port["hostPort"]) {
					c.breach(v2.RuleHost, "takes a port of its node (hostPort)")
				}
			}
		}
	}
}

// checkSecurity checks the security context of a pod or a container.
func (c *objectCheck) checkSecurity(value any) {
	s, _ := value.(map[string]any)
	if isSet(s["privileged"]) {
		c.breach(v2.RulePrivileged, "runs a privileged container")
	}
	if isSet(at(s, "windowsOptions", "hostProcess")) {
		c.breach(v2.RulePrivileged, "runs a process of its Windows node (hostProcess)")
	}
	for _, added := range texts(at(s, "capabilities", "add")) {
		if !slices.Contains(capabilities, strings.TrimPrefix(strings.ToUpper(added), "CAP_")) {
			c.breach(v2.RulePrivileged, "adds capability %s", added)
		}
	}
	if mount, _ := s["procMount"].(string); mount != "" && mount != "Default" {
		c.breach(v2.RulePrivileged, "unmasks /proc (procMount)")
	}
	if at(s, "seccompProfile", "type") == "Unconfined" || at(s, "appArmorProfile", "type") == "Unconfined" {
		c.breach(v2.RulePrivileged, "turns off the confinement of system calls (Unconfined)")
	}
}

// isSet reports whether a value is more than null, false, zero or empty.
func isSet(v any) bool { return v != nil && v != false && v != 0.0 && v != "" }

// at returns the value at a path of members; nil if there is none.
func at(t map[string]any, members ...string) any {
	for _, m := range members[:len(members)-1] {
		t, _ = t[m].(map[string]any)
	}
	return t[members[len(members)-1]]
}

// items returns the mappings of a list.
func items(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, item := range list {
		if t, ok := item.(map[string]any); ok {
			out = append(out, t)
		}
	}
	return out
}

// texts returns the strings of a list.
func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
