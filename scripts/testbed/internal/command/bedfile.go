package command

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
)

const fileName = "bed.json"

// bedFile is the content of bed.json.
type bedFile struct {
	PID      int           `json:"pid"` // of testbed itself
	Etcd     etcdEntry     `json:"etcd"`
	Clusters []memberEntry `json:"clusters"`
}

type etcdEntry struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

type memberEntry struct {
	Name       string         `json:"name"`
	Server     string         `json:"server"`
	Kubeconfig string         `json:"kubeconfig"`
	Kubectl    string         `json:"kubectl"` // path of the binary
	Flux       bool           `json:"flux"`
	PIDs       map[string]int `json:"pids"`
}

func (r *runningBed) content() bedFile {
	f := bedFile{PID: os.Getpid(), Etcd: etcdEntry{URL: r.bed.EtcdURL(), PID: r.bed.EtcdPID()}}
	for _, m := range r.started {
		e := memberEntry{
			Name: m.cluster.Name(), Server: m.cluster.Server(), Kubeconfig: m.cluster.Kubeconfig(),
			Kubectl: m.cluster.KubectlPath(), Flux: m.flux != nil, PIDs: m.cluster.PIDs(),
		}
		if m.flux != nil {
			maps.Copy(e.PIDs, m.flux.PIDs())
		}
		f.Clusters = append(f.Clusters, e)
	}
	return f
}

// write creates bed.json atomically.
func (r *runningBed) write() error {
	data, err := json.MarshalIndent(r.content(), "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(r.bed.Dir(), fileName)
	if err := os.WriteFile(path+".tmp", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// forget removes bed.json, because the processes in it have ended or will end.
func (r *runningBed) forget() { _ = os.Remove(filepath.Join(r.bed.Dir(), fileName)) }
