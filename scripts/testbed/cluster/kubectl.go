package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Kubectl runs kubectl as the administrator and returns its standard output. The error of a failed run
// contains its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, "", args)
}

// Apply creates or changes the objects of a manifest by server-side apply.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := c.kubectl(ctx, manifest, []string{"apply", "--server-side", "--force-conflicts", "-f", "-"})
	return err
}

// KubectlPath returns the path of the kubectl binary for the cluster.
func (c *Cluster) KubectlPath() string { return filepath.Join(c.programs.kube, "kubectl") }

func (c *Cluster) kubectl(ctx context.Context, stdin string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, c.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+c.path("kubectl-cache"), "KUBERC=off")
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s in %s: %w: %s", strings.Join(args, " "), c.name, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}
