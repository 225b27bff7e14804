package app_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// keyTable returns the rows that a command of emco keys printed, by the state of the key.
func (s *testStage) keyTable(verb ...string) map[string][]string {
	s.Helper()
	code, text := command(append([]string{"keys", "-data", s.config.Data}, verb...)...)
	if code != 0 {
		s.Fatalf("emco keys %v: exit code %d, %s", verb, code, text)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); strings.Contains(line, "wait to be sealed") {
			rows["waits"] = f
		} else if len(f) >= 4 {
			rows[f[1]] = f
		}
	}
	return rows
}

// nowhereInFolder checks that no file of the data folder holds a text.
func (s *testStage) nowhereInFolder(text string) {
	s.Helper()
	err := filepath.WalkDir(s.config.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			s.Errorf("%s holds %s", path, text)
		}
		return err
	})
	s.must("search the data folder", err)
}

// Override values, key-value pairs and rendered Secrets are sealed in the stores. Keys are rotated and wrapped
// again while requests go on; then the former key-encryption key opens nothing.
func TestF70ValuesAreSealedAndKeysRotate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.stop()
	s.options = append(s.options, app.WithKeyWait(50*time.Millisecond))
	s.start()
	s.fleet("a")
	s.expect(201, "POST", provider+"/clusters/a/kv-pairs", `{"metadata":{"name":"kv"},"spec":{"kv":[{"key":"planted-pair"}]}}`)
	s.onboard("web")
	s.repack("web", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: {{ .Values.motto }}\n")
	g := testGroup{s, till + "/deployment-intent-groups/autumn"}
	s.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1",
		"logicalCloud":"stores","overrideValues":[{"app":"web","values":{"motto":"planted-password"}}]}}`)
	s.expect(201, "POST", g.path+"/generic-placement-intents", named("places"))
	g.place("web")
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`)
	g.act("approve")
	g.act("instantiate")
	g.becomes("Instantiated")

	stop := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() { // reads and writes while the keys change
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, path := range []string{g.path, provider + "/clusters/a/kv-pairs/kv"} {
				if a := s.do("GET", path, ""); a.Status != 200 || !strings.Contains(a.Body, "planted-p") {
					t.Errorf("GET %s while the keys change: %d %s", path, a.Status, a.Body)
				}
			}
			if a := s.do("POST", provider+"/clusters/a/kv-pairs", fmt.Sprintf(`{"metadata":{"name":"kv-%d"},"spec":{"kv":[{"key":"planted-pair"}]}}`, n)); a.Status != 201 {
				t.Errorf("POST while the keys change: %d %s", a.Status, a.Body)
			}
		}
	})
	first := s.keyTable("list")["current"][0]
	s.keyTable("rotate")
	s.eventually("all values are sealed with the new key", func() string {
		rows := s.keyTable("verify")
		if rows["current"][0] == first || rows["waits"] != nil || rows["former"] == nil || rows["former"][4] != "0" || rows["current"][4] == "0" {
			return strings.Join(append(rows["current"], rows["former"]...), " ")
		}
		return ""
	})
	kek := seal.NewKey()
	file := filepath.Join(s.dir, "kek")
	s.must("write a key", os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(kek.Secret())), 0o600))
	if row := s.keyTable("rewrap", "file://"+file)["current"]; row[3] != kek.ID() {
		t.Errorf("after rewrap: %v, want the key %s", row, kek.ID())
	}
	close(stop)
	serving.Wait()
	s.stop()
	for _, text := range []string{"planted-password", "planted-pair", base64.StdEncoding.EncodeToString(kek.Secret())} {
		s.nowhereInFolder(text)
	}
	s.refusesToStart(kek.ID()) // with the former key
	s.config.Encryption.KEK = "file://" + file
	s.must("destroy the former key", os.Remove(filepath.Join(s.config.Data, "sealing.key")))
	s.start()
	g.act("update")
	g.becomes("Instantiated")
	if a := s.expect(200, "GET", g.path, ""); !strings.Contains(a, "planted-password") {
		t.Errorf("the override values are %s", a)
	}
}

func TestKeysWithoutAProcess(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][]string{
		1: {"keys", "-data", t.TempDir(), "list"},
		2: {"keys", "rewrap", "vault://x"},
	} {
		if code, text := command(args...); code != want || !strings.Contains(text, "emco keys") {
			t.Errorf("%v: exit code %d, %s; want %d", args, code, text, want)
		}
	}
}
