// Command kube is the control plane of Kubernetes and kubectl in one binary.
// The name it is called by, or else its first argument, says which it is.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the version
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	if command(name) == nil && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	build := command(name)
	if build == nil {
		fmt.Fprintln(os.Stderr, "kube: call it as kube-apiserver, kube-controller-manager, kube-scheduler or kubectl")
		os.Exit(2)
	}
	if name == "kubectl" {
		if err := cli.RunNoErrOutput(build()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	}
	os.Exit(cli.Run(build()))
}

// command returns what builds the command of a name, nil for other names.
func command(name string) func() *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand
	case "kube-scheduler":
		return func() *cobra.Command { return scheduler.NewSchedulerCommand() }
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand
	}
	return nil
}
