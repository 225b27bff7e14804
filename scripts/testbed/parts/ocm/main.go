// Command ocm is what a hub of Open Cluster Management and its clusters need for ManifestWorks, in one binary: the placement
// controller, the controller of ManifestWorkReplicaSets, and the agent of a cluster. The name it is called by says which
// it is.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openshift/library-go/pkg/controller/controllercmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	"k8s.io/utils/clock"
	"open-cluster-management.io/api/feature"
	"open-cluster-management.io/ocm/pkg/common/options"
	"open-cluster-management.io/ocm/pkg/features"
	placement "open-cluster-management.io/ocm/pkg/placement/controllers"
	"open-cluster-management.io/ocm/pkg/version"
	"open-cluster-management.io/ocm/pkg/work/hub"
	"open-cluster-management.io/ocm/pkg/work/spoke"
)

func main() {
	cmd, err := command(filepath.Base(os.Args[0]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "ocm:", err)
		os.Exit(2)
	}
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	os.Exit(cli.Run(cmd))
}

// command returns the command of a name, as the programs of Open Cluster Management make it.
func command(name string) (*cobra.Command, error) {
	switch name {
	case "ocm-placement":
		o := options.NewOptions()
		cmd := controller(name, o, placement.RunControllerManager)
		o.AddFlags(cmd.Flags())
		return cmd, nil
	case "ocm-work-manager":
		if err := features.HubMutableFeatureGate.Add(feature.DefaultHubWorkFeatureGates); err != nil {
			return nil, err
		}
		common, o := options.NewOptions(), hub.NewWorkHubManagerOptions()
		cmd := controller(name, common, hub.NewWorkHubManagerConfig(o).RunWorkHubManager)
		common.AddFlags(cmd.Flags())
		o.AddFlags(cmd.Flags())
		features.HubMutableFeatureGate.AddFlag(cmd.Flags())
		return cmd, nil
	case "ocm-work-agent":
		if err := features.SpokeMutableFeatureGate.Add(feature.DefaultSpokeWorkFeatureGates); err != nil {
			return nil, err
		}
		agent, o := options.NewAgentOptions(), spoke.NewWorkloadAgentOptions()
		cmd := controller(name, agent.CommonOpts, spoke.NewWorkAgentConfig(agent, o).RunWorkloadAgent)
		agent.AddFlags(cmd.Flags())
		o.AddFlags(cmd.Flags())
		features.SpokeMutableFeatureGate.AddFlag(cmd.Flags())
		return cmd, nil
	}
	return nil, fmt.Errorf("call it as ocm-placement, ocm-work-manager or ocm-work-agent, not as %s", name)
}

func controller(name string, o *options.Options, start controllercmd.StartFunc) *cobra.Command {
	return o.NewControllerCommandConfig(name, version.Get(), start, clock.RealClock{}).NewCommandWithContext(context.Background())
}
