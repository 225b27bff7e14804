package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Media types that Flux's command line pushes and its source controller reads.
const (
	ConfigType  = "application/vnd.cncf.flux.config.v1+json"
	ContentType = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// maxManifest and maxContent bound reads from a registry.
const (
	maxManifest = 1 << 20
	maxContent  = 64 << 20
)

// Tag returns the tag of a cluster, "<provider>_<cluster>": tags have no "+". If a name
// has a "_", or the tag would be too long, a hash is added, so that no two clusters share
// a tag.
func Tag(cluster v2.ClusterKey) string {
	tag := cluster.Provider() + "_" + cluster.Cluster()
	if strings.Count(tag, "_") == 1 && len(tag) <= maxTag {
		return tag
	}
	sum := sha256.Sum256([]byte(cluster.String()))
	return tag[:min(len(tag), maxTag-18)] + "-" + hex.EncodeToString(sum[:])[:12]
}

// maxTag is the longest tag that registries accept.
const maxTag = 128

// artifactLocation locates the artifact of one cluster.
type artifactLocation struct {
	repo *remote.Repository
	tag  string
}

// publish makes the artifact hold the files of the job and returns its digest.
func (s artifactLocation) publish(ctx context.Context, job batch.Job, root string) (string, error) {
	have, files, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	files = apply(files, job.Edits)
	path, text := folder.Keep(root)
	files[path] = text
	layer, err := pack(files)
	if err != nil {
		return "", err
	}
	manifest, err := manifestOf(layer)
	if err != nil {
		return "", err
	}
	if id := digest.FromBytes(manifest); id != have {
		err = s.send(ctx, job, manifest, layer)
	}
	return digest.FromBytes(manifest).String(), err
}

// read returns the digest of the artifact and its files; none if it does not exist.
func (s artifactLocation) read(ctx context.Context) (digest.Digest, map[string][]byte, error) {
	desc, err := s.repo.Resolve(ctx, s.tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return "", map[string][]byte{}, nil
	}
	if err != nil {
		return "", nil, err
	}
	if desc.Size > maxManifest {
		return "", nil, errs.New(errs.TooLarge, "the tag refers to something larger than a manifest")
	}
	text, err := content.FetchAll(ctx, s.repo, desc)
	if err != nil {
		return "", nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(text, &m); err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != ContentType {
		return "", nil, errs.New(errs.Conflict, "the tag refers to something other than an artifact of Flux; remove it or choose another repository")
	}
	if m.Layers[0].Size > maxContent {
		return "", nil, errs.New(errs.TooLarge, "the artifact is larger than 64 MiB")
	}
	blob, err := content.FetchAll(ctx, s.repo, m.Layers[0])
	if errors.Is(err, errdef.ErrNotFound) { // the registry has lost it: publish it again
		return "", map[string][]byte{}, nil
	}
	if err != nil {
		return "", nil, err
	}
	files, err := unpack(blob)
	return desc.Digest, files, err
}

// config is the empty configuration of all artifacts.
var config = []byte("{}")

// manifestOf returns the manifest of a layer. It depends on the layer alone.
func manifestOf(layer []byte) ([]byte, error) {
	return json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: content.NewDescriptorFromBytes(ConfigType, config),
		Layers: []v1.Descriptor{content.NewDescriptorFromBytes(ContentType, layer)},
	})
}

// send uploads what is missing, and moves the tag last: readers see either the old artifact
// or the whole new one.
func (s artifactLocation) send(ctx context.Context, job batch.Job, manifest, layer []byte) error {
	for _, blob := range []struct {
		kind string
		text []byte
	}{{ConfigType, config}, {ContentType, layer}} {
		desc := content.NewDescriptorFromBytes(blob.kind, blob.text)
		there, err := s.repo.Blobs().Exists(ctx, desc)
		if err == nil && !there {
			err = s.repo.Blobs().Push(ctx, desc, bytes.NewReader(blob.text))
		}
		if err != nil {
			return err
		}
	}
	if job.Fence.Check != nil {
		if err := job.Fence.Check(ctx); err != nil {
			return err
		}
	}
	desc := content.NewDescriptorFromBytes(v1.MediaTypeImageManifest, manifest)
	return s.repo.Manifests().PushReference(ctx, desc, bytes.NewReader(manifest), s.tag)
}

// classified gives the error of a registry a kind. Errors with a kind keep it.
func classified(err error, where string) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*errs.Error](err); done {
		return &errs.Error{Kind: errs.KindOf(err), Op: "publish", Subject: where, Err: err, After: errs.RetryAfter(err)}
	}
	refused, ok := errors.AsType[*errcode.ErrorResponse](err)
	if !ok {
		return errs.E(errs.Unavailable, "publish", where, err)
	}
	why := fmt.Errorf("the registry answers %d %s", refused.StatusCode, refused.Errors)
	if refused.StatusCode >= http.StatusInternalServerError {
		return errs.E(errs.Unavailable, "publish", where, why)
	}
	return errs.E(errs.FromStatus(refused.StatusCode), "publish", where, errors.New(strings.TrimSpace(brief(why.Error()))))
}

// brief bounds the text of the registry.
func brief(text string) string {
	const most = 300
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
	}
	return text
}
