package rest

import (
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Beginnings of paths.
const (
	provider = "cluster-providers/{clusterProvider}"
	cluster  = provider + "/clusters/{cluster}"
	project  = "projects/{project}"
	cloud    = project + "/logical-clouds/{logicalCloud}"
	compApp  = project + "/composite-apps/{compositeApp}/{compositeAppVersion}"
	group    = compApp + "/deployment-intent-groups/{deploymentIntentGroup}"
	generic  = group + "/generic-k8s-intents/{genericK8sIntent}"
	hpa      = group + "/hpa-intents/{hpaIntent}"
	chain    = group + "/network-chains/{sfcIntent}"
	nci      = group + "/network-controller-intent/{netControllerIntent}"
	traffic  = group + "/traffic-group-intents/{trafficGroupIntent}"
	inbound  = traffic + "/inbound-intents/{inboundServerIntent}"
	hook     = group + "/temporal-action-controller/{hookIntent}"
	workflow = group + "/temporal-workflow-intents/{workflowIntent}"

	providerCert = provider + "/ca-certs/{caCert}"
	projectCert  = project + "/ca-certs/{caCert}"
	certCloud    = projectCert + "/logical-clouds/{caCertLogicalCloud}"

	view      = "views/" + group
	planClass = view + "/plans/{plan}/classes/{class}"
)

// Documents of clusters and of the whole program. They are constants: assign to none.
var (
	ClmControllers        = documents[v2.ClmController]("clm-controllers", "{controller-name}")
	Controllers           = documents[v2.Controller]("controllers", "{controller}")
	DtcControllers        = documents[v2.DtcController]("dtc-controllers", "{dtcController}")
	ClusterProviders      = documents[v2.ClusterProvider]("cluster-providers", "{clusterProvider}")
	ClusterSyncObjects    = documents[v2.SyncObject](provider+"/cluster-sync-objects", "{clusterSyncObject}")
	Clusters              = files[v2.Cluster](provider+"/clusters", "{cluster}")
	ClusterLabels         = documents[v2.ClusterLabel](cluster+"/labels", "{clusterLabel}")
	ClusterKVs            = documents[v2.KV](cluster+"/kv-pairs", "{clusterKv}")
	Networks              = documents[v2.Network](cluster+"/networks", "{network}")
	ProviderNetworks      = documents[v2.ProviderNetwork](cluster+"/provider-networks", "{providerNetwork}")
	ProviderCACerts       = documents[v2.CACert](provider+"/ca-certs", "{caCert}")
	ProviderCACertMembers = documents[v2.CACertCluster](providerCert+"/clusters", "{caCertCluster}")
	PolicyAgents          = fixed[v2.PolicyAgent]("policy/agents", "{agent}")
	Roles                 = documents[v2.Role]("roles", "{role}")
	RoleBindings          = documents[v2.RoleBinding]("role-bindings", "{roleBinding}")
	ProviderRoleBindings  = documents[v2.RoleBinding](provider+"/role-bindings", "{roleBinding}")
)

// Documents of projects. They are constants: assign to none.
var (
	Projects               = documents[v2.Project]("projects", "{project}")
	Policies               = documents[v2.Policy](project+"/policies", "{policy}")
	ProjectRoleBindings    = documents[v2.RoleBinding](project+"/role-bindings", "{roleBinding}")
	ProjectCACerts         = documents[v2.CACert](project+"/ca-certs", "{caCert}")
	ProjectCACertClouds    = documents[v2.CACertLogicalCloud](projectCert+"/logical-clouds", "{caCertLogicalCloud}")
	ProjectCACertMembers   = documents[v2.CACertCluster](certCloud+"/clusters", "{caCertCluster}")
	LogicalClouds          = documents[v2.LogicalCloud](project+"/logical-clouds", "{logicalCloud}")
	ClusterQuotas          = documents[v2.ClusterQuota](cloud+"/cluster-quotas", "{clusterQuota}")
	ClusterReferences      = fixed[v2.ClusterReference](cloud+"/cluster-references", "{clusterReference}")
	CloudKVs               = documents[v2.KV](cloud+"/kv-pairs", "{logicalCloudKv}")
	UserPermissions        = documents[v2.UserPermission](cloud+"/user-permissions", "{userPermission}")
	CompositeApps          = documents[v2.CompositeApp](project+"/composite-apps", "{compositeApp}/{compositeAppVersion}")
	Apps                   = files[v2.App](compApp+"/apps", "{app}")
	AppDependencies        = documents[v2.AppDependency](compApp+"/apps/{app}/dependency", "{dependency}")
	CompositeProfiles      = documents[v2.CompositeProfile](compApp+"/composite-profiles", "{compositeProfile}")
	AppProfiles            = files[v2.AppProfile](compApp+"/composite-profiles/{compositeProfile}/profiles", "{appProfile}")
	DeploymentIntentGroups = documents[v2.DeploymentIntentGroup](compApp+"/deployment-intent-groups", "{deploymentIntentGroup}")
)

// Intents of deployment intent groups. They are constants: assign to none.
var (
	GroupIntents          = groupIntents{documents[v2.GroupIntent](group+"/intents", "{groupIntent}")}
	PlacementIntents      = documents[v2.PlacementIntent](group+"/generic-placement-intents", "{genericPlacementIntent}")
	AppIntents            = documents[v2.AppIntent](group+"/generic-placement-intents/{genericPlacementIntent}/app-intents", "{genericAppPlacementIntent}")
	GenericK8sIntents     = documents[v2.GenericK8sIntent](group+"/generic-k8s-intents", "{genericK8sIntent}")
	GenericResources      = files[v2.GenericResource](generic+"/resources", "{genericResource}")
	Customizations        = files[v2.Customization](generic+"/resources/{genericResource}/customizations", "{customization}")
	HPAIntents            = documents[v2.HPAIntent](group+"/hpa-intents", "{hpaIntent}")
	HPAConsumers          = documents[v2.HPAConsumer](hpa+"/hpa-resource-consumers", "{hpaConsumer}")
	HPAResources          = documents[v2.HPAResource](hpa+"/hpa-resource-consumers/{hpaConsumer}/resource-requirements", "{hpaResource}")
	NetworkChains         = documents[v2.NetworkChain](group+"/network-chains", "{sfcIntent}")
	ChainClientSelectors  = documents[v2.ChainClientSelector](chain+"/client-selectors", "{sfcClientSelector}")
	ChainLinks            = documents[v2.ChainLink](chain+"/links", "{sfcLink}")
	ChainProviderNetworks = documents[v2.ChainProviderNetwork](chain+"/provider-networks", "{sfcProviderNetwork}")
	ChainClients          = documents[v2.ChainClient](group+"/sfc-clients", "{sfcClientIntent}")
	NetControllerIntents  = documents[v2.NetControllerIntent](group+"/network-controller-intent", "{netControllerIntent}")
	WorkloadIntents       = documents[v2.WorkloadIntent](nci+"/workload-intents", "{workloadIntent}")
	InterfaceIntents      = documents[v2.InterfaceIntent](nci+"/workload-intents/{workloadIntent}/interfaces", "{interfaceIntent}")
	PolicyIntents         = fixed[v2.PolicyIntent](group+"/policy-intents", "{policyIntent}")
	HookIntents           = documents[v2.HookIntent](group+"/temporal-action-controller", "{hookIntent}")
	WorkerIntents         = documents[v2.WorkerIntent](hook+"/workers", "{workerIntent}")
	WorkflowIntents       = fixed[v2.WorkflowIntent](group+"/temporal-workflow-intents", "{workflowIntent}")
	TrafficGroupIntents   = documents[v2.TrafficGroupIntent](group+"/traffic-group-intents", "{trafficGroupIntent}")
	InboundServers        = documents[v2.InboundServer](traffic+"/inbound-intents", "{inboundServerIntent}")
	InboundClients        = documents[v2.InboundClient](inbound+"/clients", "{inboundClientsIntent}")
	AccessPoints          = documents[v2.AccessPoint](inbound+"/clients/{inboundClientsIntent}/access-points", "{inboundClientsAccessIntent}")
)

// Actions of deployment intent groups, logical clouds, networks and certificate authorities. They are constants:
// assign to none.
var (
	ApproveDeployment     = stateAction{group + "/approve"}
	InstantiateDeployment = plannedAction[client.NoContent](group + "/instantiate")
	UpdateDeployment      = plannedAction[client.NoContent](group + "/update")
	RollbackDeployment    = plannedAction[v2.Rollback](group + "/rollback")
	MigrateDeployment     = plannedAction[v2.Migrate](group + "/migrate")
	TerminateDeployment   = stateAction{group + "/terminate"}
	StopDeployment        = stateAction{group + "/stop"}
	PromoteDeployment     = Action[v2.Promote, v2.ActionPreview]{group + "/promote"}

	InstantiateCloud = stateAction{cloud + "/instantiate"}
	UpdateCloud      = stateAction{cloud + "/update"}
	TerminateCloud   = stateAction{cloud + "/terminate"}
	StopCloud        = stateAction{cloud + "/stop"}

	ApplyNetworks     = stateAction{cluster + "/apply"}
	TerminateNetworks = stateAction{cluster + "/terminate"}
	StopNetworks      = stateAction{cluster + "/stop"}

	InstantiateProviderEnrollment   = stateAction{providerCert + "/enrollment/instantiate"}
	UpdateProviderEnrollment        = stateAction{providerCert + "/enrollment/update"}
	TerminateProviderEnrollment     = stateAction{providerCert + "/enrollment/terminate"}
	InstantiateProviderDistribution = stateAction{providerCert + "/distribution/instantiate"}
	UpdateProviderDistribution      = stateAction{providerCert + "/distribution/update"}
	TerminateProviderDistribution   = stateAction{providerCert + "/distribution/terminate"}
	InstantiateProjectEnrollment    = stateAction{projectCert + "/enrollment/instantiate"}
	UpdateProjectEnrollment         = stateAction{projectCert + "/enrollment/update"}
	TerminateProjectEnrollment      = stateAction{projectCert + "/enrollment/terminate"}
	InstantiateProjectDistribution  = stateAction{projectCert + "/distribution/instantiate"}
	UpdateProjectDistribution       = stateAction{projectCert + "/distribution/update"}
	TerminateProjectDistribution    = stateAction{projectCert + "/distribution/terminate"}
)

// What may change something without a lifecycle. They are constants: assign to none.
var (
	MoveCluster        = Call[v2.ClusterMoveRequest, v2.Cluster]{http.MethodPost, cluster + "/move"}
	MakeReportToken    = Call[client.NoContent, v2.NewReportToken]{http.MethodPost, cluster + "/monitor/token"}
	RevokeReportTokens = Call[client.NoContent, client.NoContent]{http.MethodDelete, cluster + "/monitor/token"}
	AdoptBranch        = Call[v2.GitBranch, v2.GitBranch]{http.MethodPost, "git/adopt"}
	RestoreBranch      = Call[v2.GitBranch, v2.GitBranch]{http.MethodPost, "git/restore"}
	MakeAPIToken       = Call[v2.APIToken, v2.NewAPIToken]{http.MethodPost, "tokens"}
	RevokeAPIToken     = Call[client.NoContent, client.NoContent]{http.MethodDelete, "tokens/{token}"}
	CanI               = Call[v2.Access, v2.AccessAnswer]{http.MethodPost, "auth/can-i"}
	WhoCan             = Call[v2.Access, v2.Holders]{http.MethodPost, "auth/who-can"}
	DeliverEvent       = Call[v2.AgentEvent, []v2.EventOutcome]{http.MethodPost, "policy/agents/{agent}/events"}

	RetryHook      = RunAction[client.NoContent]{hook + "/retry"}
	SkipHook       = RunAction[client.NoContent]{hook + "/skip"}
	AbortHook      = RunAction[client.NoContent]{hook + "/abort"}
	CancelHook     = RunAction[v2.WorkflowCancel]{hook + "/cancel"}
	StartWorkflow  = RunAction[client.NoContent]{workflow + "/start"}
	CancelWorkflow = RunAction[v2.WorkflowCancel]{workflow + "/cancel"}

	ClearHPAIntents   = Call[client.NoContent, client.NoContent]{http.MethodDelete, group + "/hpa-intents"}
	ClearHPAConsumers = Call[client.NoContent, client.NoContent]{http.MethodDelete, hpa + "/hpa-resource-consumers"}
	ClearHPAResources = Call[client.NoContent, client.NoContent]{http.MethodDelete, hpa + "/hpa-resource-consumers/{hpaConsumer}/resource-requirements"}
)

// Queries. They are constants: assign to none.
var (
	DeploymentStatus    = Query[v2.Status]{group + "/status"}
	DeploymentEvents    = Query[v2.EventsAnswer]{group + "/events"}
	DeploymentPlacement = Query[v2.PlacementAnswer]{group + "/placement"}
	Revisions           = Query[v2.RevisionsAnswer]{group + "/revisions"}
	Revision            = Query[v2.Revision]{group + "/revisions/{revision}"}
	HookStatus          = Query[v2.WorkflowStatus]{hook + "/status"}
	WorkflowStatus      = Query[v2.WorkflowStatus]{workflow + "/status"}
	ProjectUsage        = Query[v2.ProjectUsage]{project + "/usage"}
	CloudStatus         = Query[v2.Status]{cloud + "/status"}
	CloudEvents         = Query[v2.EventsAnswer]{cloud + "/events"}
	Kubeconfig          = Text{cloud + "/cluster-references/{clusterReference}/kubeconfig"}
	NetworksStatus      = Query[v2.Status]{cluster + "/status"}
	ClusterMove         = Query[v2.ClusterMove]{cluster + "/move"}
	Monitor             = Query[json.RawMessage]{cluster + "/monitor"} // for people: its members may change
	ReportTokens        = Query[[]v2.ReportToken]{cluster + "/monitor/token"}

	ProviderEnrollmentStatus   = Query[v2.Status]{providerCert + "/enrollment/status"}
	ProviderDistributionStatus = Query[v2.Status]{providerCert + "/distribution/status"}
	ProjectEnrollmentStatus    = Query[v2.Status]{projectCert + "/enrollment/status"}
	ProjectDistributionStatus  = Query[v2.Status]{projectCert + "/distribution/status"}

	Branches  = Query[[]v2.GitBranch]{"git/branches"}
	APITokens = Query[[]v2.APIToken]{"tokens"}
	Issuers   = Query[[]v2.SignIn]{"auth/issuers"}
	WhoAmI    = Query[v2.WhoAmI]{"auth/whoami"}
	AuditLog  = Query[audit.Page]{"audit"}
	AuditFile = Text{"audit/export"}

	Fleet           = Query[v2.FleetView]{"views/fleet"}
	FleetCluster    = Query[v2.ClusterView]{"views/fleet/nth"}
	ClusterPages    = Query[v2.ClusterViews]{"views/clusters"}
	ClusterDetails  = Query[v2.ClusterDetail]{"views/clusters/{clusterProvider}/{cluster}"}
	ClusterHistory  = Query[v2.HistoryViews]{"views/clusters/{clusterProvider}/{cluster}/history"}
	DeploymentPages = Query[v2.DeploymentViews]{"views/deployments"}
	Matrix          = Query[v2.MatrixView]{view + "/matrix"}
	PlacementPages  = Query[v2.PlacementViews]{view + "/placement"}
	GroupHistory    = Query[v2.HistoryViews]{view + "/history"}
	PlanClusters    = Query[v2.PlanClusters]{planClass + "/clusters"}
	PlanDiff        = Text{planClass + "/diff"}
	EventPages      = Query[v2.EventViews]{"views/events"}
	BranchPages     = Query[v2.LaneViews]{"views/git"}
	CommitPages     = Query[v2.CommitViews]{"views/git/{lane}/commits"}
	Search          = Query[v2.SearchView]{"views/search"}

	Doctor         = Query[v2.DoctorAnswer]{"views/doctor"}
	DoctorBranches = Query[v2.DoctorAnswer]{"views/doctor/branches"}
)

// All lists the routes.
func All() []Route {
	return []Route{
		ClmControllers, Controllers, DtcControllers, ClusterProviders, ClusterSyncObjects, Clusters, ClusterLabels, ClusterKVs,
		Networks, ProviderNetworks, ProviderCACerts, ProviderCACertMembers, PolicyAgents, Roles, RoleBindings, ProviderRoleBindings,

		Projects, Policies, ProjectRoleBindings, ProjectCACerts, ProjectCACertClouds, ProjectCACertMembers, LogicalClouds,
		ClusterQuotas, ClusterReferences, CloudKVs, UserPermissions, CompositeApps, Apps, AppDependencies, CompositeProfiles,
		AppProfiles, DeploymentIntentGroups,

		GroupIntents, PlacementIntents, AppIntents, GenericK8sIntents, GenericResources, Customizations, HPAIntents, HPAConsumers,
		HPAResources, NetworkChains, ChainClientSelectors, ChainLinks, ChainProviderNetworks, ChainClients, NetControllerIntents,
		WorkloadIntents, InterfaceIntents, PolicyIntents, HookIntents, WorkerIntents, WorkflowIntents, TrafficGroupIntents,
		InboundServers, InboundClients, AccessPoints,

		ApproveDeployment, InstantiateDeployment, UpdateDeployment, RollbackDeployment, MigrateDeployment, TerminateDeployment,
		StopDeployment, PromoteDeployment, InstantiateCloud, UpdateCloud, TerminateCloud, StopCloud, ApplyNetworks, TerminateNetworks, StopNetworks,
		InstantiateProviderEnrollment, UpdateProviderEnrollment, TerminateProviderEnrollment, InstantiateProviderDistribution,
		UpdateProviderDistribution, TerminateProviderDistribution, InstantiateProjectEnrollment, UpdateProjectEnrollment,
		TerminateProjectEnrollment, InstantiateProjectDistribution, UpdateProjectDistribution, TerminateProjectDistribution,

		MoveCluster, MakeReportToken, RevokeReportTokens, AdoptBranch, RestoreBranch, MakeAPIToken, RevokeAPIToken, CanI, WhoCan,
		DeliverEvent, RetryHook, SkipHook, AbortHook, CancelHook, StartWorkflow, CancelWorkflow,
		ClearHPAIntents, ClearHPAConsumers, ClearHPAResources,

		DeploymentStatus, DeploymentEvents, DeploymentPlacement, Revisions, Revision, HookStatus, WorkflowStatus, ProjectUsage,
		CloudStatus, CloudEvents, Kubeconfig, NetworksStatus, ClusterMove, Monitor, ReportTokens, ProviderEnrollmentStatus,
		ProviderDistributionStatus, ProjectEnrollmentStatus, ProjectDistributionStatus, Branches, APITokens, Issuers, WhoAmI,
		AuditLog, AuditFile, Fleet, FleetCluster, ClusterPages, ClusterDetails, ClusterHistory, DeploymentPages, Matrix, PlacementPages, GroupHistory,
		PlanClusters, PlanDiff, EventPages, BranchPages, CommitPages, Search, Doctor, DoctorBranches,
	}
}

// stateAction is an action without arguments and without a plan.
type stateAction = Action[client.NoContent, v2.ActionPreview]

func plannedAction[In any](path string) PlannedAction[In] {
	return PlannedAction[In]{Action[In, v2.Plan]{path}}
}

func fixed[T any](collection, item string) Fixed[T] { return Fixed[T]{collection, item} }

func documents[T any](collection, item string) Documents[T] {
	return Documents[T]{fixed[T](collection, item)}
}

func files[T any](collection, item string) Files[T] {
	return Files[T]{fixed[T](collection, item)}
}
