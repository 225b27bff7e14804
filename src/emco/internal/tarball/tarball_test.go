package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// testEntry is one entry of a test archive, by default a plain file.
type testEntry struct {
	name string
	kind byte
	body string
	mode int64
	link string
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t testing.TB, items ...testEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Typeflag: i.kind, Name: i.name, Mode: 0o644 | i.mode, Size: int64(len(i.body)), Linkname: i.link}
		if i.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: i.kind, Name: i.name, PAXRecords: map[string]string{"comment": "x"}}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pack(t testing.TB, items ...testEntry) []byte { return zipped(t, tarred(t, items...)) }

func TestFilesReadsWhatTarWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		items []testEntry
		want  string
	}{
		{"paths from the directory itself", []testEntry{{name: "web/", kind: tar.TypeDir}, {name: "web/Chart.yaml", body: "a"}, {name: "web/t/x", body: "b"}}, "map[web/Chart.yaml:a web/t/x:b]"},
		{"paths that begin with a dot", []testEntry{{name: "./", kind: tar.TypeDir}, {name: "./web/", kind: tar.TypeDir}, {name: "./web/Chart.yaml", body: "a"}}, "map[web/Chart.yaml:a]"},
		{"a directory after its files", []testEntry{{name: "web/a", body: "a"}, {name: "web/", kind: tar.TypeDir}}, "map[web/a:a]"},
		{"a long name", []testEntry{{name: strings.Repeat("n", 200), body: "a"}}, "map[" + strings.Repeat("n", 200) + ":a]"},
		{"an empty file", []testEntry{{name: "a"}}, "map[a:]"},
		{"directories alone", []testEntry{{name: "a/", kind: tar.TypeDir}}, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := pack(t, tt.items...)
			files, err := Files(bytes.NewReader(data), Default())
			got := map[string]string{}
			for name, content := range files {
				got[name] = string(content)
			}
			if err != nil || fmt.Sprint(got) != tt.want {
				t.Errorf("Files = %v, %v, want %s", got, err, tt.want)
			}
			if err := Check(iotest.OneByteReader(bytes.NewReader(data)), Default()); err != nil {
				t.Errorf("Check = %v", err)
			}
		})
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	t.Parallel()
	small := Limits{Compressed: 4000, Expanded: 100_000, Entries: 3, Ratio: 100, Depth: 3}
	file := testEntry{name: "a", body: "a"}
	good := pack(t, file)
	noise := make([]byte, 5000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, tt := range []struct {
		name string
		data []byte
		kind errs.Kind
		want string
	}{
		{"no gzip", []byte("text"), errs.Malformed, "Error in file format: it is not a gzip file; make one with tar -czf"},
		{"no gzip, and long", []byte("text that is longer than a header"), errs.Malformed, "Error in file format: it is not a gzip file; make one with tar -czf"},
		{"nothing", nil, errs.Malformed, "Error in file format: the file is empty"},
		{"no tar", zipped(t, []byte("text")), errs.Malformed, "Error in file format: after 0 entries"},
		{"an empty tar", pack(t), errs.Malformed, "Error in file format: the archive is empty"},
		{"half an archive", good[:len(good)/2], errs.Malformed, "unexpected EOF"},
		{"a broken checksum", append(bytes.Clone(good[:len(good)-8]), 1, 2, 3, 4, 5, 6, 7, 8), errs.Malformed, "checksum"},
		{"data after the end", zipped(t, append(tarred(t, file), tarred(t, testEntry{name: "b"})...)), errs.Malformed, "data after the end"},
		{"a path that climbs", pack(t, testEntry{name: "../x"}), errs.Malformed, `entry "../x": leaves the archive`},
		{"a path that climbs within", pack(t, testEntry{name: "a/../../x"}), errs.Malformed, `entry "a/../../x": leaves the archive`},
		{"a directory that climbs", pack(t, testEntry{name: "a/..", kind: tar.TypeDir}), errs.Malformed, "leaves the archive"},
		{"a dot, then a path that climbs", pack(t, testEntry{name: "./../x"}), errs.Malformed, "leaves the archive"},
		{"an absolute path", pack(t, testEntry{name: "/etc/passwd"}), errs.Malformed, `entry "/etc/passwd": is an absolute path`},
		{"a path with a drive", pack(t, testEntry{name: "C:/x"}), errs.Malformed, "is an absolute path"},
		{"a path with backslashes", pack(t, testEntry{name: `a\..\x`}), errs.Malformed, "backslash"},
		{"a path that is not clean", pack(t, testEntry{name: "a//b"}), errs.Malformed, `is not a clean path; write "a/b"`},
		{"a path with a line break", pack(t, testEntry{name: "a\nb"}), errs.Malformed, "cannot be printed"},
		{"a symbolic link", pack(t, testEntry{name: "l", kind: tar.TypeSymlink, link: "/etc"}), errs.Malformed, `entry "l": is a link`},
		{"a symbolic link to write through", pack(t, testEntry{name: "l", kind: tar.TypeSymlink, link: "/tmp"}, testEntry{name: "l/x"}), errs.Malformed, `entry "l": is a link`},
		{"a hard link", pack(t, file, testEntry{name: "h", kind: tar.TypeLink, link: "a"}), errs.Malformed, `entry "h": is a link`},
		{"a device", pack(t, testEntry{name: "d", kind: tar.TypeChar}), errs.Malformed, "is neither a regular file nor a directory"},
		{"a pipe", pack(t, testEntry{name: "p", kind: tar.TypeFifo}), errs.Malformed, "is neither"},
		{"a PAX global header", pack(t, testEntry{name: "g", kind: tar.TypeXGlobalHeader}, file), errs.Malformed, "is a PAX global header"},
		{"a setuid file", pack(t, testEntry{name: "s", mode: 0o4000}), errs.Malformed, `entry "s": is setuid`},
		{"a file twice", pack(t, file, file), errs.Malformed, `entry "a": stands twice`},
		{"a file twice in two notations", pack(t, file, testEntry{name: "./a"}), errs.Malformed, "stands twice"},
		{"a file and a directory", pack(t, file, testEntry{name: "a/b"}), errs.Malformed, `entry "a/b": lies within "a", which is a file`},
		{"a directory and a file", pack(t, testEntry{name: "a/b"}, file), errs.Malformed, `entry "a": is a file, but other entries lie within it`},
		{"names that differ in case", pack(t, testEntry{name: "web/A"}, testEntry{name: "web/a"}), errs.Malformed, `entry "web/a": differs from "web/A" in case only`},
		{"directories that differ in case", pack(t, testEntry{name: "Web/a"}, testEntry{name: "web/b"}), errs.Malformed, `differs from "Web" in case only`},
		{"names that differ in case beyond ASCII", pack(t, testEntry{name: "stra\u00dfe"}, testEntry{name: "STRA\u1e9eE"}), errs.Malformed, "in case only"},
		{"too many entries", pack(t, testEntry{name: "1"}, testEntry{name: "2"}, testEntry{name: "3"}, testEntry{name: "4"}), errs.TooLarge, `entry "4": more than 3 entries`},
		{"too deep", pack(t, testEntry{name: "a/b/c/d"}), errs.TooLarge, `entry "a/b/c/d": is 4 levels deep`},
		{"too large as uploaded", pack(t, testEntry{name: "a", body: string(noise)}), errs.TooLarge, "is larger than 4000 bytes"},
		{"too large when expanded", pack(t, testEntry{name: "a", body: strings.Repeat("x", 200_000)}), errs.TooLarge, `expands to more than 100000 bytes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Check(bytes.NewReader(tt.data), small)
			if !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "Error in file format: ") {
				t.Errorf("Check = %v, want %v with %q", err, tt.kind, tt.want)
			}
			if files, err := Files(bytes.NewReader(tt.data), small); err == nil || files != nil {
				t.Errorf("Files = %v, %v", files, err)
			}
		})
	}
}

// zeros is a reader of n zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A thousand to one is refused long before all of it is expanded.
func TestBombsAreNotExpanded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	const size = 90 << 20
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, zeros(size)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	in := &countingReader{r: bytes.NewReader(b.Bytes()), most: 1 << 30}
	err := Check(in, Default())
	if !errs.Is(err, errs.TooLarge) || !strings.Contains(err.Error(), "more than 100 times its size") {
		t.Errorf("Check = %v", err)
	}
	if in.n > int64(b.Len())/2 {
		t.Errorf("%d of %d bytes were read before it was refused", in.n, b.Len())
	}
}

func TestSmallArchivesMayBeDense(t *testing.T) {
	t.Parallel()
	data := pack(t, testEntry{name: "a", body: strings.Repeat("x", 900_000)})
	if err := Check(bytes.NewReader(data), Default()); err != nil {
		t.Errorf("%d bytes that expand to 900,000: %v", len(data), err)
	}
}

// The error of an interrupted upload is returned unchanged; it is no fault of the archive.
func TestErrorsOfTheReaderAreKept(t *testing.T) {
	t.Parallel()
	cause := errs.New(errs.Unavailable, "the store is away")
	data := pack(t, testEntry{name: "a", body: "a"})
	in := io.MultiReader(bytes.NewReader(data[:20]), iotest.ErrReader(cause))
	if err := Check(in, Default()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Check = %v, want %v", err, cause)
	}
}

// FuzzFiles looks for archives that break the reader, or that yield a path which
// leaves the archive.
func FuzzFiles(f *testing.F) {
	f.Add(tarred(f, testEntry{name: "./web/Chart.yaml", body: "a"}, testEntry{name: "web/t/", kind: tar.TypeDir}))
	f.Add(tarred(f, testEntry{name: "../x"}))
	f.Add(tarred(f, testEntry{name: strings.Repeat("n", 150), body: "b"}))
	f.Add(tarred(f, testEntry{name: "l", kind: tar.TypeSymlink, link: "/etc"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		data := zipped(t, raw)
		files, err := Files(bytes.NewReader(data), Default())
		if checked := Check(bytes.NewReader(data), Default()); (checked == nil) != (err == nil) {
			t.Fatalf("Files returns %v, Check %v", err, checked)
		}
		for name := range files {
			if local(name) != nil || strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Fatalf("path %q was let in", name)
			}
		}
	})
}
