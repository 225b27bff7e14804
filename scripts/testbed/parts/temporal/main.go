// Command temporal serves a whole Temporal server over a file of SQLite:
//
//	temporal ADDRESS FOLDER
//
// Clients reach the frontend at ADDRESS, an address of this machine. The namespace "default" exists. A server that starts
// again on the same folder continues what it was doing.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/testing/freeport"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	clusterName = "active"
	namespace   = "default"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("call it as: temporal ADDRESS FOLDER")
	}
	host, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	c := configOf(host, number, filepath.Join(args[1], "temporal.db"))
	if err := prepare(c); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	s, err := temporal.NewServer(
		temporal.WithConfig(c), temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(log.NewZapLogger(log.BuildZapLogger(log.Config{Stdout: true, Level: "warn"}))),
	)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	<-end
	return s.Stop()
}

// prepare creates the tables in a new file, and the namespace.
func prepare(c *config.Config) error {
	db := c.Persistence.DataStores[sqliteplugin.PluginName].SQL
	if _, err := os.Stat(db.DatabaseName); errors.Is(err, os.ErrNotExist) {
		if err := sqlite.SetupSchema(db); err != nil {
			return err
		}
	}
	first, err := sqlite.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err != nil {
		return err
	}
	return sqlite.CreateNamespaces(db, first)
}

func configOf(host string, port int, file string) *config.Config {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	internal := func() config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: freeport.MustGetFreePort(), MembershipPort: freeport.MustGetFreePort(), BindOnLocalHost: true}}
	}
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: host},
		},
		Persistence: config.Persistence{
			DefaultStore: sqliteplugin.PluginName, VisibilityStore: sqliteplugin.PluginName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{sqliteplugin.PluginName: {SQL: &config.SQL{
				PluginName: sqliteplugin.PluginName, DatabaseName: file,
				// The kernel keeps what a killed process wrote.
				ConnectAttributes: map[string]string{"mode": "rwc", "_journal_mode": "wal", "_synchronous": "off"},
			}}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			"frontend": {RPC: config.RPC{GRPCPort: port, MembershipPort: freeport.MustGetFreePort(), BindOnIP: host}},
			"history":  internal(), "matching": internal(), "worker": internal(),
		},
		Archival: config.Archival{History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"}},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: address},
	}
}
