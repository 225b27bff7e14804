package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// The parts of upstream's multipart bodies. The file name of a single file is always
// the word "filename", as upstream's own client sends it.
const (
	MetadataPart = "metadata"
	FilePart     = "file"
	FilesPart    = "files"
	FileName     = "filename"
)

// Body is what a request carries. It can be opened several times, so that a
// request can be sent again.
type Body interface {
	ContentType() string
	Size() int64 // in bytes
	Open() (io.ReadCloser, error)
}

// JSON returns a body of JSON text.
func JSON(text []byte) Body { return jsonBody(text) }

type jsonBody []byte

func (jsonBody) ContentType() string { return JSONType }
func (b jsonBody) Size() int64       { return int64(len(b)) }
func (b jsonBody) Open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b)), nil
}

// File is one file to upload, from a path or from memory. It is streamed, never
// held in memory when it comes from a path.
type File struct {
	Part string // FilePart or FilesPart
	Name string // the file name sent
	Path string // read from here if Data is nil
	Data []byte
}

// OneFile returns the part "file" with upstream's constant file name.
func OneFile(path string) File { return File{Part: FilePart, Name: FileName, Path: path} }

// open returns the content and its size.
func (f File) open() (io.ReadCloser, int64, error) {
	if f.Data != nil {
		return io.NopCloser(bytes.NewReader(f.Data)), int64(len(f.Data)), nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, 0, errs.E(errs.Invalid, "open", f.Path, cause(err))
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = file.Close() // the first error matters
		return nil, 0, errs.E(errs.Invalid, "open", f.Path, cause(err))
	}
	return file, info.Size(), nil
}

// Open returns the file's content; the error is Invalid and names the path.
func (f File) Open() (io.ReadCloser, error) {
	r, _, err := f.open()
	return r, err
}

// cause strips the path that os puts into its errors.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// Multipart returns a multipart/form-data body: the part "metadata" with the
// document's JSON, then the files in order, each with a sniffed content type. The
// files are looked at now (the error is Invalid, naming the path) and read when
// the body is sent.
func Multipart(metadata []byte, files ...File) (Body, error) {
	b := &multipartBody{}
	buf := &bytes.Buffer{}
	w := multipart.NewWriter(buf)
	b.contentType = w.FormDataContentType()
	if err := w.WriteField(MetadataPart, string(metadata)); err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := b.add(w, buf, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.literal(buf)
	return b, nil
}

// multipartBody alternates literal bytes (boundaries, heads) and files.
type multipartBody struct {
	contentType string
	size        int64
	pieces      []bodyPart
}

type bodyPart struct {
	text []byte
	file File
	size int64
}

func (b *multipartBody) literal(buf *bytes.Buffer) {
	b.pieces = append(b.pieces, bodyPart{text: bytes.Clone(buf.Bytes())})
	b.size += int64(buf.Len())
	buf.Reset()
}

func (b *multipartBody) add(w *multipart.Writer, buf *bytes.Buffer, f File) error {
	r, size, err := f.open()
	if err != nil {
		return err
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(r, head)
	_ = r.Close() // only read from
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return errs.E(errs.Invalid, "read", f.Path, cause(err))
	}
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", fmt.Sprintf(`form-data; name="%s"; filename="%s"`, quote(f.Part), quote(f.Name)))
	h.Set("Content-Type", http.DetectContentType(head[:n]))
	if _, err := w.CreatePart(h); err != nil {
		return err
	}
	b.literal(buf)
	b.pieces = append(b.pieces, bodyPart{file: f, size: size})
	b.size += size
	return nil
}

// quote makes a name safe inside a quoted header parameter.
func quote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "", "\n", "").Replace(s)
}

func (b *multipartBody) ContentType() string { return b.contentType }
func (b *multipartBody) Size() int64         { return b.size }

func (b *multipartBody) Open() (io.ReadCloser, error) {
	return &multipartReader{pieces: b.pieces}, nil
}

// multipartReader reads the parts in order, with one open file at a time.
type multipartReader struct {
	pieces []bodyPart
	now    io.Reader
	file   io.Closer
}

func (r *multipartReader) Read(p []byte) (int, error) {
	for {
		if r.now == nil {
			if len(r.pieces) == 0 {
				return 0, io.EOF
			}
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.now.Read(p)
		if err != io.EOF {
			return n, err
		}
		if err := r.Close(); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (r *multipartReader) next() error {
	p := r.pieces[0]
	r.pieces = r.pieces[1:]
	if p.text != nil {
		r.now = bytes.NewReader(p.text)
		return nil
	}
	f, size, err := p.file.open()
	if err != nil {
		return err
	}
	if size != p.size {
		_ = f.Close() // only read from
		return errs.E(errs.Invalid, "read", p.file.Path, errors.New("changed while it was sent"))
	}
	r.now, r.file = f, f
	return nil
}

// Close ends the file being read, if any.
func (r *multipartReader) Close() error {
	r.now = nil
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
