// Package s3test runs a real S3 server for tests: the Versity S3 Gateway over a folder of
// the test, as scripts/testbed builds it.
package s3test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The one account of a server, and its region.
const (
	AccessKey = "emco-access"
	SecretKey = "planted-secret"
	Region    = "us-east-1"
)

// Server is a running S3 server. It ends with its test.
type Server struct {
	URL string // http://127.0.0.1:port

	t      testing.TB
	client *minio.Client
}

// Start runs a server without buckets, with additional flags of the gateway. It skips the
// test if the server is not built; build it with
//
//	cd scripts/testbed && go run . build versitygw
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	program := find()
	if program == "" {
		t.Skip("needs an S3 server: cd scripts/testbed && GOWORK=off go run . build versitygw")
	}
	for range 4 { // another program may take the port
		if s, err := start(t, program, flags); err == nil {
			return s
		} else if !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
	}
	t.Fatal("the S3 server ends whenever it is started")
	return nil
}

// find returns the newest program that the test bed has built, "" if there is none.
func find() string {
	if path := os.Getenv("EMCO_S3_SERVER"); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	built, _ := filepath.Glob(filepath.Join(cache, "emco-testbed", "versitygw-*", "versitygw"))
	newest, when := "", time.Time{}
	for _, path := range built {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(when) {
			newest, when = path, info.ModTime()
		}
	}
	return newest
}

var errEnded = errors.New("the S3 server ended")

func start(t testing.TB, program string, flags []string) (*Server, error) {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"data", "meta"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	address, err := free()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"--port", address, "--access", AccessKey, "--secret", SecretKey, "--region", Region, "--quiet", "--health", "/health", "posix"}
	args = append(append(args, flags...), "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	ended, err := run(cmd)
	if err != nil {
		cancel()
		return nil, err
	}
	t.Cleanup(func() { cancel(); <-ended })
	s := &Server{URL: "http://" + address, t: t}
	if err := s.await(ended); err != nil {
		return nil, err
	}
	s.client, err = minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region})
	return s, err
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// run starts a program that ends with this process, where the kernel can do that. It keeps
// the thread, because the kernel watches that.
func run(cmd *exec.Cmd) (ended chan struct{}, err error) {
	ended = make(chan struct{})
	begun := make(chan error)
	dieWithParent(cmd)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // the test kills it
		}
	}()
	return ended, <-begun
}

// await waits until the server answers.
func (s *Server) await(ended <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		if res, err := http.Get(s.URL + "/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			return errEnded
		case <-late:
			return errors.New("the S3 server does not answer")
		}
	}
}

// Make creates a bucket.
func (s *Server) Make(bucket string) {
	s.t.Helper()
	if err := s.client.MakeBucket(context.Background(), bucket, minio.MakeBucketOptions{Region: Region}); err != nil {
		s.t.Fatalf("create bucket %s: %v", bucket, err)
	}
}

// Put writes an object as another client would.
func (s *Server) Put(bucket, key, text string) {
	s.t.Helper()
	if err := s.put(bucket, key, text); err != nil {
		s.t.Fatalf("put %s: %v", key, err)
	}
}

func (s *Server) put(bucket, key, text string) error {
	_, err := s.client.PutObject(context.Background(), bucket, key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
	return err
}

// Object is an object as a reader sees it.
type Object struct{ ETag, Text string }

// Read returns the objects below a prefix by their keys: it lists them and gets each, as
// Flux's source controller does.
func (s *Server) Read(bucket, prefix string) map[string]Object {
	s.t.Helper()
	out := map[string]Object{}
	for o := range s.client.ListObjects(context.Background(), bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			s.t.Fatalf("list %s: %v", bucket, o.Err)
		}
		text, err := s.get(bucket, o.Key)
		if err != nil {
			s.t.Fatalf("get %s: %v", o.Key, err)
		}
		out[o.Key] = Object{o.ETag, text}
	}
	return out
}

func (s *Server) get(bucket, key string) (string, error) {
	o, err := s.client.GetObject(context.Background(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer o.Close()
	text, err := io.ReadAll(o)
	return string(text), err
}

// Empty removes all objects of a bucket.
func (s *Server) Empty(bucket string) {
	s.t.Helper()
	for key := range s.Read(bucket, "") {
		if err := s.client.RemoveObject(context.Background(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
			s.t.Fatal(fmt.Errorf("remove %s: %w", key, err))
		}
	}
}
