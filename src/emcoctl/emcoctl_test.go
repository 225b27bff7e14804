package main

import (
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/emco-orchestrator/emco/src/api/oidctest"
)

// update rewrites what scripts compare output with: go test . -args -update
var update = flag.Bool("update", false, "rewrite the golden parts of scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"emcoctl": main, "visit": visit})
}

// visit is a browser: it opens a page, and writes what it shows to the file page.
func visit() {
	res, err := http.Get(os.Args[1])
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(res.Body); err == nil {
			err = os.WriteFile("page", text, 0o600)
		}
	}
	if err != nil {
		panic(err)
	}
}

// TestScripts runs testdata/*.txtar with the real main, each against servers of its
// own: EMCO_URL is an open one, AUTH_URL demands the token "sesame", SIGNIN_URL a token of
// its provider, where ann is at the browser, TLS_URL has a certificate signed by ca.pem,
// GONE_URL answers nothing. ingress.yaml names EMCO_URL in upstream's form.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			open := httptest.NewServer(newFakeServer("", env.WorkDir))
			auth := httptest.NewServer(newFakeServer("sesame", ""))
			guarded := newFakeServer("", env.WorkDir)
			guarded.op = oidctest.New(t)
			guarded.op.SetPerson(map[string]any{"sub": "ann"})
			signin := httptest.NewServer(guarded)
			secure := httptest.NewTLSServer(newFakeServer("", ""))
			gone := httptest.NewServer(nil)
			gone.Close()
			env.Defer(func() { open.Close(); auth.Close(); signin.Close(); secure.Close() })
			env.Setenv("EMCO_URL", open.URL)
			env.Setenv("AUTH_URL", auth.URL)
			env.Setenv("SIGNIN_URL", signin.URL)
			env.Setenv("TLS_URL", secure.URL)
			env.Setenv("GONE_URL", gone.URL)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each of a hundred runs ends a second later
			at, err := url.Parse(open.URL)
			if err != nil {
				return err
			}
			ingress := fmt.Sprintf("ingress: {host: %s, port: %s}\n", at.Hostname(), at.Port())
			if err := os.WriteFile(filepath.Join(env.WorkDir, "ingress.yaml"), []byte(ingress), 0o600); err != nil {
				return err
			}
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
			return os.WriteFile(filepath.Join(env.WorkDir, "ca.pem"), ca, 0o600)
		},
	})
}
