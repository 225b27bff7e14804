// Command karmada is the control plane of Karmada, and the agent of a cluster that pulls, in one binary.
// The name it is called by says which it is.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	agent "github.com/karmada-io/karmada/cmd/agent/app"
	apiserver "github.com/karmada-io/karmada/cmd/aggregated-apiserver/app"
	manager "github.com/karmada-io/karmada/cmd/controller-manager/app"
	scheduler "github.com/karmada-io/karmada/cmd/scheduler/app"
	webhook "github.com/karmada-io/karmada/cmd/webhook/app"
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // the log format json, as in Karmada's own mains
	"k8s.io/klog/v2"
	controllerruntime "sigs.k8s.io/controller-runtime"
)

func main() {
	build := command(filepath.Base(os.Args[0]))
	if build == nil {
		fmt.Fprintln(os.Stderr, "karmada: call it as karmada-controller-manager, karmada-scheduler, karmada-webhook, karmada-aggregated-apiserver or karmada-agent")
		os.Exit(2)
	}
	controllerruntime.SetLogger(klog.Background())
	os.Exit(cli.Run(build(controllerruntime.SetupSignalHandler())))
}

// command returns what builds the command of a name, nil for other names.
func command(name string) func(context.Context) *cobra.Command {
	switch name {
	case "karmada-controller-manager":
		return manager.NewControllerManagerCommand
	case "karmada-scheduler":
		return func(ctx context.Context) *cobra.Command { return scheduler.NewSchedulerCommand(ctx.Done()) }
	case "karmada-webhook":
		return webhook.NewWebhookCommand
	case "karmada-aggregated-apiserver":
		return apiserver.NewAggregatedApiserverCommand
	case "karmada-agent":
		return agent.NewAgentCommand
	}
	return nil
}
