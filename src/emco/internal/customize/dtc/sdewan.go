package dtc

import (
	"strconv"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// The key-value pairs of clusters that describe their SD-EWAN network function, with upstream's
// names.
const (
	cnfPort     = "SdewanCnfPort"     // at which the network function offers the service
	forwardPort = "SdewanServicePort" // that it forwards to
)

const sdewanV1 = "batch.sdewan.akraino.org/v1alpha1"

type cnfService struct {
	FullName string `json:"fullname"`
	Port     string `json:"port"`
	DPort    string `json:"dport"`
}

type cnfLocalService struct {
	LocalService  string `json:"localservice"`
	LocalPort     string `json:"localport"`
	RemoteService string `json:"remoteservice"`
	RemotePort    string `json:"remoteport"`
}

// addSDEWAN lets the network functions of SD-EWAN expose a server on its clusters, and forward to
// it on clusters that have clients alone.
func (l *editList) addSDEWAN(s server) error {
	if s.Spec.EdgeCNF == "" {
		return nil
	}
	named := metadata{Name: s.name, Labels: map[string]string{"sdewanPurpose": s.Spec.EdgeCNF}}
	err := l.add(s.app, s.app.Clusters, s, func(c v2.ClusterKey) (kubeObject, error) {
		offered, err := l.port(c, cnfPort, s.Spec.Port)
		if err != nil {
			return nil, err
		}
		forwarded, err := l.port(c, forwardPort, s.Spec.Port)
		return &object[cnfService]{sdewanV1, "CNFService", named, cnfService{s.host, strconv.Itoa(offered), strconv.Itoa(forwarded)}}, err
	})
	if err != nil || len(s.remotes()) == 0 {
		return err
	}
	addresses, _, err := l.addressesOf(s, serviceAddress, cnfPort, s.Spec.Port)
	if err != nil || len(addresses) == 0 {
		return err // addDiscovery has a finding about it
	}
	first := addresses[0]
	return l.addRemote(s, &object[cnfLocalService]{sdewanV1, "CNFLocalService", named, cnfLocalService{
		LocalService: s.host, LocalPort: strconv.Itoa(s.Spec.Port), RemoteService: first.address, RemotePort: strconv.Itoa(first.port),
	}})
}
