package e2e

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/emco-orchestrator/emco/scripts/release/image"
)

// The images of a release start in Podman, from the folders that the release writes, and, where there is no engine, as an engine starts
// them: from their own files, read-only, with their user, variables and entrypoint, in the restrictions of the chart. EMCO_ENGINE is another command
// than podman, such as one with flags.
func TestImages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program as another user, from a read-only root")
	}
	dir := t.TempDir()
	const version = "v9.8.7"
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "images", "-version", version, "-out", dir)
	cmd.Dir, cmd.Env = local("..", "release"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("assemble the images: %v\n%s", err, out)
	}

	images := filepath.Join(dir, "images")
	t.Run("without an engine", func(t *testing.T) {
		imagesStart(t, version, func(t *testing.T, name string) container { return newContainer(t, filepath.Join(images, name)) })
	})
	t.Run("in an engine", func(t *testing.T) {
		engine := strings.Fields(cmp.Or(os.Getenv("EMCO_ENGINE"), "podman"))
		if _, err := exec.LookPath(engine[0]); err != nil && os.Getenv("EMCO_ENGINE") == "" {
			t.Skip("podman is not installed")
		}
		imagesStart(t, version, func(t *testing.T, name string) container {
			c := newContainer(t, filepath.Join(images, name))
			c.engine = engine
			return c
		})
	})
}

// imagesStart wants that each image starts and works.
func imagesStart(t *testing.T, version string, newContainer func(t *testing.T, name string) container) {
	t.Helper()
	emcoctl := newContainer(t, "emcoctl")
	temporal := []string{"EMCO_WORKFLOWS_TEMPORAL_ADDRESS=temporal.example.org:7233", "EMCO_WORKFLOWS_TEMPORAL_TASK_QUEUES=backups"}
	for program, env := range map[string][]string{"emco": nil, "emco-temporal": temporal} {
		emco := newContainer(t, program)
		if emco.config.User != "65532:65532" {
			t.Errorf("the image of %s runs as %q, want 65532:65532", program, emco.config.User)
		}
		url, stop := emco.serve(t, env)
		if body := get(t, url+"/version"); !strings.Contains(body, `"version":"`+version+`"`) {
			t.Errorf("%s: /version is %s, want %s", program, body, version)
		}
		if out, err := emcoctl.command(t, nil, "get", "projects", "--server", url).CombinedOutput(); err != nil {
			t.Errorf("emcoctl get projects: %v\n%s", err, out)
		}
		stop()
		if entries, err := os.ReadDir(filepath.Join(emco.data, "etcd")); err != nil || len(entries) == 0 {
			t.Errorf("the volume of %s holds no data: %v", program, err)
		}
	}
	without := newContainer(t, "emco")
	if out, err := without.command(t, temporal).CombinedOutput(); err == nil || !strings.Contains(string(out), "run emco-temporal instead") {
		t.Errorf("emco with the settings of Temporal: %v\n%s", err, out)
	}
	monitor := newContainer(t, "monitor")
	if out, err := monitor.command(t, nil, "-version").Output(); err != nil || !strings.HasPrefix(string(out), "monitor "+version) {
		t.Errorf("monitor -version: %v, %q", err, out)
	}
}

// serve starts the control plane and waits until it is ready. stop ends it and wants that to be in order.
func (c container) serve(t *testing.T, env []string) (url string, stop func()) {
	t.Helper()
	var log bytes.Buffer
	address := freeAddress(t) // the image's own port may be in use on this machine; its host stays
	running := c.command(t, append(env, "EMCO_HTTP_ADDRESS=0.0.0.0:"+portOf(address), "EMCO_GRPC_ADDRESS=0.0.0.0:0"))
	running.Stdout, running.Stderr = &log, &log
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	waitReady(t, "http://"+address+"/readyz", ended, &log)
	return "http://" + address, func() {
		t.Helper()
		if err := running.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v\n%s", err, log.String())
		}
	}
}

// container is the image of a program, unpacked, or as an engine reads it.
type container struct {
	layout, root, data string
	config             v1.Config
	engine             []string // command of the engine; nil: none
}

func newContainer(t *testing.T, layout string) container {
	t.Helper()
	img, err := image.Open(layout, v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	// The folders of the test belong to root alone, and the container's user must pass through them.
	dir, err := os.MkdirTemp("", "emco-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	named := filepath.Join(dir, "image") // Podman names the image by the path, in lower case
	if err := os.Symlink(layout, named); err != nil {
		t.Fatal(err)
	}
	c := container{layout: named, root: filepath.Join(dir, "root"), data: filepath.Join(dir, "data"), config: file.Config}
	for _, d := range []string{dir, c.root, c.data, filepath.Join(c.root, "proc")} { // engines create the mount points
		if err := cmp.Or(os.MkdirAll(d, 0o755), os.Chmod(d, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := image.Unpack(img, c.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(c.data, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	return c
}

// start is what an engine does, as a script: volumes, a read-only root, no way to more rights.
const start = `
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
for volume in $3; do mount --bind "$2" "$1$volume"; done
[ ! -d "$1/tmp" ] || mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -o remount,bind,ro "$1"
root=$1 user=$4
shift 4
exec setpriv --no-new-privs chroot --userspec="$user" "$root" "$@"`

func (c container) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if c.engine != nil {
		return c.engineCommand(t, env, args)
	}
	var volumes []string
	for v := range c.config.Volumes {
		volumes = append(volumes, v)
	}
	line := append([]string{"--mount", "sh", "-euc", start, "sh", c.root, c.data, strings.Join(volumes, " "), c.config.User}, c.config.Entrypoint...)
	cmd := exec.CommandContext(t.Context(), "unshare", append(append(line, c.config.Cmd...), args...)...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, c.config.Env...), env...)
	return cmd
}

// engineCommand has the engine run the image with the restrictions of the chart. The container ends with the test.
func (c container) engineCommand(t *testing.T, env, args []string) *exec.Cmd {
	t.Helper()
	name := "emco-test-" + strings.ToLower(rand.Text())
	line := append(slices.Clone(c.engine), "run", "--rm", "--name", name, "--network", "host", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
	for v := range c.config.Volumes {
		line = append(line, "--volume", c.data+":"+v)
	}
	for _, e := range env {
		line = append(line, "--env", e)
	}
	line = append(append(line, "oci:"+c.layout), args...)
	t.Cleanup(func() { // else a test that fails leaves it
		remove := append(slices.Clone(c.engine), "rm", "--force", "--ignore", name)
		if out, err := exec.Command(remove[0], remove[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(remove, " "), err, out)
		}
	})
	return exec.CommandContext(t.Context(), line[0], line[1:]...)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waitReady polls until the answer is 200.
func waitReady(t *testing.T, url string, ended <-chan error, log fmt.Stringer) {
	t.Helper()
	limit, tick := time.After(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		if res, err := http.Get(url); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("the program ended: %v\n%s", err, log)
		case <-limit:
			t.Fatalf("%s is not ready after two minutes", url)
		case <-tick.C:
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
