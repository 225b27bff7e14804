package flux

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// namespace is where Flux's bootstrap lives, and EMCO's pointer objects.
const namespace = "flux-system"

// longestFetch is the longest timeout of a GitRepository: its schema knows no hours.
const longestFetch = 59 * time.Minute

// Labels of pointer objects, for people and for the agent on the edge.
const (
	labelManagedBy  = "app.kubernetes.io/managed-by"
	labelDeployment = "emco/deployment"
	labelApp        = "emco/app"
)

// document is a pointer object. Flux's own types have a status that would be written
// as an empty member; only metadata and spec are desired state.
type document struct {
	metav1.TypeMeta
	Metadata metadata `json:"metadata"`
	Spec     any      `json:"spec"`
}

type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

// MarshalJSON returns the object with the members that its tags name.
func (d document) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": d.APIVersion, "kind": d.Kind, "metadata": d.Metadata, "spec": d.Spec,
	})
}

// source returns the GitRepository of a target. Only the deployment's directory on
// this cluster is in what Flux keeps of it.
func (b backend) source(t syncer.Target) ([]byte, error) {
	ignore := only(t.Dir())
	spec := sourcev1.GitRepositorySpec{
		URL:       t.Repo.URL,
		Interval:  metav1.Duration{Duration: b.interval},
		Timeout:   &metav1.Duration{Duration: min(b.timeout, longestFetch)},
		Reference: &sourcev1.GitRepositoryRef{Branch: t.Repo.Branch},
		Ignore:    &ignore,
	}
	if b.secret != "" {
		spec.SecretRef = &meta.LocalObjectReference{Name: b.secret}
	}
	return syncer.Encode(document{
		TypeMeta: metav1.TypeMeta{APIVersion: sourcev1.GroupVersion.String(), Kind: sourcev1.GitRepositoryKind},
		Metadata: metadata{Name: sourceName(t), Namespace: namespace, Labels: labels(t, "")},
		Spec:     spec,
	})
}

// kustomization returns the Kustomization of an app.
//
// It does not wait for health: Flux would hold one of its few workers until the
// timeout whenever an object is not ready, and call the whole Kustomization not ready
// during each reconciliation. Health of objects is reported by the agent on the edge.
func (b backend) kustomization(t syncer.Target, app string) ([]byte, error) {
	dir, err := t.AppDir(app)
	if err != nil {
		return nil, err
	}
	spec := kustomizev1.KustomizationSpec{
		Interval:           metav1.Duration{Duration: b.interval},
		RetryInterval:      &metav1.Duration{Duration: b.retry},
		Timeout:            &metav1.Duration{Duration: b.timeout},
		Path:               "./" + dir,
		Prune:              true,
		ServiceAccountName: b.account,
		SourceRef:          kustomizev1.CrossNamespaceSourceReference{Kind: sourcev1.GitRepositoryKind, Name: sourceName(t)},
	}
	return syncer.Encode(document{
		TypeMeta: metav1.TypeMeta{APIVersion: kustomizev1.GroupVersion.String(), Kind: kustomizev1.KustomizationKind},
		Metadata: metadata{Name: label("emco-" + t.Deployment + "-" + app), Namespace: namespace, Labels: labels(t, app)},
		Spec:     spec,
	})
}

func sourceName(t syncer.Target) string { return label("emco-" + t.Deployment) }

func labels(t syncer.Target, app string) map[string]string {
	out := map[string]string{labelManagedBy: "emco", labelDeployment: label(t.Deployment)}
	if app != "" {
		key, value := manifest.DeploymentLabel(t.Deployment, app) // it belongs to the app as its objects do
		out[key] = value
		out[labelApp] = app
		if len(validation.IsValidLabelValue(app)) > 0 {
			out[labelApp] = label(app)
		}
	}
	return out
}

// label returns s as a name that Kubernetes takes both for an object and as the value
// of a label: Flux puts the name of a Kustomization on all that it applies. EMCO allows
// longer names, capitals and underscores; those are rewritten, and a hash tells them apart.
func label(s string) string {
	if len(validation.IsDNS1123Label(s)) == 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	return strings.TrimLeft(strings.Trim(plain[:min(len(plain), 54)], "-")+"-", "-") + hex.EncodeToString(sum[:])[:8]
}

// only returns rules in the form of .gitignore that leave out all but one directory.
// They stand after the rules of files in the repository, and so win over them.
func only(dir string) string {
	var out strings.Builder
	out.WriteString("/*\n")
	path := ""
	parts := strings.Split(dir, "/")
	for i, part := range parts {
		path += "/" + escape(part)
		fmt.Fprintf(&out, "!%s/\n", path)
		if i < len(parts)-1 {
			fmt.Fprintf(&out, "%s/*\n", path)
		}
	}
	fmt.Fprintf(&out, "!%s/**\n", path)
	return out.String()
}

// escape makes a rule match a name that holds characters with a meaning in rules.
func escape(name string) string {
	var out strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]\!# `, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// checkNames refuses names that Kubernetes would refuse on the edge, where nobody
// sees it.
func checkNames(o Options) error {
	for key, name := range map[string]string{"secretRef": o.SecretRef, "serviceAccountName": o.ServiceAccount} {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return errs.E(errs.Invalid, "open", "sync backend fluxcd", errors.New(key+" is no name of a Kubernetes object"))
		}
	}
	return nil
}
