package tarball

import (
	"compress/gzip"
	"errors"
	"io"
)

// The ratio applies to archives above ratioFrom. While reading, ratioSlack is added,
// because a part of an archive may be compressed better than the whole.
const (
	ratioFrom  = 1 << 20
	ratioSlack = 10 << 20
)

// tarStream reads the tar within an archive and enforces the limits.
type tarStream struct {
	limits Limits
	in     *countingReader
	unzip  *gzip.Reader
	out    int64
}

func open(in *countingReader, l Limits) (*tarStream, error) {
	unzip, err := gzip.NewReader(in)
	switch {
	case errors.Is(err, io.EOF) && in.n == 0:
		return nil, errors.New("the file is empty")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrHeader):
		return nil, errors.New("it is not a gzip file; make one with tar -czf")
	case err != nil:
		return nil, err
	}
	return &tarStream{limits: l, in: in, unzip: unzip}, nil
}

// Read reads tar bytes until a limit is reached.
func (s *tarStream) Read(p []byte) (int, error) {
	n, err := s.unzip.Read(p)
	s.out += int64(n)
	switch {
	case s.out > s.limits.Expanded:
		return 0, above("expands to more than %d bytes", s.limits.Expanded)
	case s.out > s.limits.Ratio*s.in.n+ratioSlack:
		return 0, s.tooDense()
	}
	return n, err
}

// finish reads what follows the last entry, so that the checksum is verified. It must be
// padding.
func (s *tarStream) finish() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return errors.New("there is data after the end of the tar")
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if s.out > ratioFrom && s.out > s.limits.Ratio*s.in.n {
		return s.tooDense()
	}
	return nil
}

func (s *tarStream) tooDense() error {
	return above("expands to more than %d times its size", s.limits.Ratio)
}

// countingReader counts the bytes read and fails above its limit. It keeps the error of the
// underlying reader, which is no fault of the archive.
type countingReader struct {
	r    io.Reader
	n    int64
	most int64
	err  error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	if c.n += int64(n); c.n > c.most {
		return 0, above("is larger than %d bytes", c.most)
	}
	return n, err
}
