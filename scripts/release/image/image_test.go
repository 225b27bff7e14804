package image_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/emco-orchestrator/emco/scripts/release/image"
)

var platform = v1.Platform{OS: "linux", Architecture: "arm64"}

// builder has a context of two files, and one file that git does not track.
func builder(t *testing.T) image.Builder {
	t.Helper()
	b := image.Builder{
		Context: t.TempDir(), Work: t.TempDir(), Files: []string{"src/a.txt", "src/tool.sh"}, Platform: platform,
		Args: map[string]string{"VERSION": "v1.2.3"}, Created: time.Unix(1_700_000_000, 0).UTC(), Log: t.Output(),
	}
	for name, mode := range map[string]fs.FileMode{"src/a.txt": 0o600, "src/tool.sh": 0o700, "src/ignored.txt": 0o600} {
		file := filepath.Join(b.Context, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho "+name+" >\"$1\"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func build(ctx context.Context, t *testing.T, b image.Builder, dockerfile string) (v1.Image, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	return b.Build(ctx, file)
}

const dockerfile = `
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETARCH VERSION OTHER=else
WORKDIR /work
COPY src src
RUN src/tool.sh made && echo $VERSION $TARGETARCH $OTHER >>made && mkdir empty && ls src >>made
FROM scratch
COPY --from=build --chown=65532:65532 /work/empty /var/data
COPY --from=build /work/made /work/src/tool.sh /bin/
ENV DATA=/var/data
USER 65532:65532
VOLUME /var/data
EXPOSE 9015
ENTRYPOINT ["/bin/tool.sh", "x"]
`

func TestBuild(t *testing.T) {
	t.Parallel()
	img, err := build(t.Context(), t, builder(t), dockerfile)
	if err != nil {
		t.Fatal(err)
	}
	layout, root := t.TempDir(), t.TempDir()
	if err := image.Write(layout, "x:v1", []v1.Image{img}); err != nil {
		t.Fatal(err)
	}
	if img, err = image.Open(layout, platform); err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	if err := image.Unpack(img, root); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(filepath.Join(root, "bin", "made"))
	if want := "src/tool.sh\nv1.2.3 arm64 else\na.txt\ntool.sh\n"; err != nil || string(made) != want {
		t.Errorf("made is %q, want %q (%v)", made, want, err)
	}
	for name, mode := range map[string]fs.FileMode{"bin/made": 0o644, "bin/tool.sh": 0o755, "var/data": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, want mode %v (%v)", name, info, mode, err)
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/bin/tool.sh", "x"}) || !slices.Equal(c.Env, []string{"DATA=/var/data"}) {
		t.Errorf("config %+v", c)
	}
	if _, ok := c.ExposedPorts["9015/tcp"]; !ok || file.Architecture != "arm64" || file.Created.Unix() != 1_700_000_000 {
		t.Errorf("config file %+v", file)
	}
}

// The same sources give the same image.
func TestBuildIsReproducible(t *testing.T) {
	t.Parallel()
	var digests []v1.Hash
	for range 2 {
		img, err := build(t.Context(), t, builder(t), dockerfile)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %v", digests)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dockerfile, want string }{
		"an untracked file":          {"FROM scratch\nCOPY src/ignored.txt /", "not in the context"},
		"a command without a shell":  {"FROM scratch\nRUN true", "no shell"},
		"an entrypoint of the shell": {"FROM scratch\nENTRYPOINT /x", "has no shell"},
		"a base from a registry":     {"FROM alpine\nCOPY src /", "FROM scratch"},
		"an unknown stage":           {"FROM scratch\nCOPY --from=other /x /", "no stage above"},
		"an unknown instruction":     {"FROM scratch\nSTOPSIGNAL SIGTERM", "does not know"},
		"a failing command":          {"FROM x AS b\nRUN exit 3\nFROM scratch", "exit status 3"},
	} {
		if _, err := build(t.Context(), t, builder(t), c.dockerfile); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A fresh clone contains everything that the Dockerfiles copy.
func TestF34DockerfilesCopyTrackedFiles(t *testing.T) {
	t.Parallel()
	const repo = "../../.."
	files, err := filepath.Glob(repo + "/deployments/docker/*.Dockerfile")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d Dockerfiles, want 3 (%v)", len(files), err)
	}
	for _, file := range files {
		stages, err := image.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		sources := image.Sources(stages)
		if len(sources) == 0 {
			t.Errorf("%s copies nothing", file)
		}
		for _, path := range sources {
			out, err := exec.CommandContext(t.Context(), "git", "-C", repo, "ls-files", "--", path).Output()
			if err != nil || len(out) == 0 {
				t.Errorf("%s copies %s, which git does not track (%v)", file, path, err)
			}
		}
		for _, stage := range stages[len(stages)-1:] {
			if stage.BaseName != "scratch" {
				t.Errorf("%s ends with FROM %s, want scratch", file, stage.BaseName)
			}
		}
	}
}
