package oci_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
)

// insecure reads what a test has served itself.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

func untar(blob []byte) (map[string]string, error) {
	zip, err := gzip.NewReader(bytes.NewReader(blob))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if !h.ModTime.IsZero() && h.ModTime.Unix() != 0 || h.Uid != 0 || h.Uname != "" {
			return nil, errors.New(h.Name + " has a time or an owner")
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		out[h.Name] = string(text)
	}
}
