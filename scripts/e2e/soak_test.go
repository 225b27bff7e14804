package e2e

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// settling is how long stores may grow from the start: history goes after ten minutes, replaced
// revisions after five, and content in two sweeps of twenty minutes at most.
const settling = 40 * time.Minute

// soakSamples is how often a soak is measured.
const soakSamples = 20

// A program that carries out changes for long needs no more memory, files, goroutines and disk space
// at the end than it did before. EMCO_SOAK is the duration; without it the test skips. EMCO_SOAK_PAUSE is
// the pause between two changes, for a machine that others use. EMCO_SOAK_PROFILES is a folder for profiles
// of the heap and of goroutines, one of each for each sample; compare two with go tool pprof -diff_base.
// The disk is compared only after the stores had time to settle.
func TestSoak(t *testing.T) {
	asked := os.Getenv("EMCO_SOAK")
	if asked == "" {
		t.Skip("EMCO_SOAK is not set: it is the duration of the soak, such as 1h")
	}
	duration, err := time.ParseDuration(asked)
	if err != nil || duration <= 0 {
		t.Fatalf("EMCO_SOAK=%q is no duration, such as 1h", asked)
	}
	pause, err := time.ParseDuration(cmp.Or(os.Getenv("EMCO_SOAK_PAUSE"), "0s"))
	if err != nil || pause < 0 {
		t.Fatalf("EMCO_SOAK_PAUSE=%q is no duration, such as 2s", os.Getenv("EMCO_SOAK_PAUSE"))
	}
	do := steps{TB: t}
	do.next("40 clusters, 4 apps")
	s := newScale(t, 40, 4, "-debug.address", "127.0.0.1:0")
	s.measure("instantiate", func() {})

	do.next("changes for %s", duration)
	f, began, changes := s.fleet(), time.Now(), 0
	var samples []soakSample
	for n := range soakSamples {
		for time.Since(began) < duration*time.Duration(n+1)/soakSamples {
			changes++
			s.must("change a value", f.Revalue(t.Context(), s.d, s.d.Apps[changes%4].Chart, fmt.Sprintf("colour: c%d\n", changes)))
			s.must("update", f.Act(t.Context(), s.d.Path(), "update"))
			if changes%3 > 0 { // the others overtake each other
				s.doneBy(f)
			}
			time.Sleep(pause)
		}
		samples = append(samples, s.sample(time.Since(began), changes))
	}
	s.doneBy(f)

	do.next("compare the end with the time before")
	flat(t, samples, "live heap, MiB", 1.1, 4, 0, func(x soakSample) float64 { return x.live })
	flat(t, samples, "resident memory, MiB", 1.15, 48, 0, func(x soakSample) float64 { return x.resident })
	flat(t, samples, "open files", 1.1, 10, 0, func(x soakSample) float64 { return x.files })
	flat(t, samples, "goroutines", 1.1, 40, 0, func(x soakSample) float64 { return x.goroutines })
	flat(t, samples, "temporary files", 1, 5, 0, func(x soakSample) float64 { return x.temporary })
	flat(t, samples, "data without etcd's log, MiB", 1.2, 16, settling, func(x soakSample) float64 { return x.data })
	s.sound()
}

// soakSample is what a running program needs; sizes are in MiB.
type soakSample struct {
	at                           time.Duration
	resident                     float64 // anonymous and mapped
	anonymous, mapped            float64
	live                         float64 // the heap after a collection
	held                         float64 // what Go's run time keeps of the kernel's memory, live or not
	files, goroutines, temporary float64
	data                         float64
}

func (s *scaleStage) sample(at time.Duration, changes int) soakSample {
	s.Helper()
	m, err := s.emco.Memory()
	s.must("read memory", err)
	for _, profile := range []string{"goroutine", "heap?gc=1"} { // the collection comes last
		text, err := s.emco.Profile(s.Context(), profile)
		s.must("read a profile", err)
		if dir := os.Getenv("EMCO_SOAK_PROFILES"); dir != "" {
			name, _, _ := strings.Cut(profile, "?")
			s.must("keep a profile", os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%05.0f.pb.gz", name, at.Seconds())), text, 0o600))
		}
	}
	figures, err := s.emco.Metrics(s.Context())
	s.must("read metrics", err)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.emco.PID()))
	s.must("list open files", err)
	temporary, err := filepath.Glob(filepath.Join(os.TempDir(), "emco*"))
	s.must("list temporary files", err)
	out := soakSample{
		at: at, resident: float64(m.Resident) / mib, anonymous: float64(m.Anonymous) / mib, mapped: float64(m.Mapped) / mib,
		live:  figures["go_memstats_heap_alloc_bytes"] / mib,
		held:  (figures["go_memstats_sys_bytes"] - figures["go_memstats_heap_released_bytes"]) / mib,
		files: float64(len(open)), goroutines: figures["go_goroutines"], temporary: float64(len(temporary)), data: s.dataSize() / mib,
	}
	s.Logf("    after %s: %d changes; %.0f MiB resident (%.0f anonymous, %.0f mapped); heap %.1f MiB live, %.0f held; %.0f files, %.0f goroutines, %.0f temporary files; %.1f MiB of data",
		at.Round(time.Second), changes, out.resident, out.anonymous, out.mapped, out.live, out.held, out.files, out.goroutines, out.temporary, out.data)
	return out
}

// dataSize adds up the data folder without etcd's log, whose files are allocated in advance.
func (s *scaleStage) dataSize() (bytes float64) {
	s.Helper()
	err := filepath.WalkDir(filepath.Join(s.options.Dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/member/wal/") {
			return nil // files come and go
		}
		if info, err := d.Info(); err == nil {
			bytes += float64(info.Size())
		}
		return nil
	})
	s.must("walk through the data", err)
	return bytes
}

// flat compares the median of the last quarter of samples with that of the quarter before the last
// half, without samples before a time.
func flat(t *testing.T, samples []soakSample, what string, factor, slack float64, after time.Duration, of func(soakSample) float64) {
	t.Helper()
	samples = slices.DeleteFunc(slices.Clone(samples), func(x soakSample) bool { return x.at < after })
	if len(samples) < 4 {
		t.Logf("    %s: not compared, the soak is too short", what)
		return
	}
	n := len(samples)
	before, end := median(samples[n/4:n/2], of), median(samples[n-n/4:], of)
	t.Logf("    %s: %.1f before, %.1f at the end", what, before, end)
	if end > before*factor+slack {
		t.Errorf("%s grew from %.1f to %.1f", what, before, end)
	}
}

func median(samples []soakSample, of func(soakSample) float64) float64 {
	var all []float64
	for _, x := range samples {
		all = append(all, of(x))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
