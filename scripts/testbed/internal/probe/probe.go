// Package probe checks once whether a server is reachable. Callers that wait repeat the check.
package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
)

// HTTP returns nil if the server answers a GET of url with status, otherwise the reason.
func HTTP(ctx context.Context, url string, status int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != status {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}

// TCP returns nil if a server accepts connections at address, otherwise the reason.
func TCP(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// serving is the answer of gRPC's health service for a service that serves: a frame with the member status, 1.
var serving = []byte{0, 0, 0, 0, 2, 8, 1}

// GRPC returns nil if gRPC's health service at address reports that a service serves, otherwise the reason. The name of
// the service has less than 128 bytes.
func GRPC(ctx context.Context, address, service string) error {
	question := append([]byte{0x0a, byte(len(service))}, service...) // the member service
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(question))), question...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check", bytes.NewReader(frame))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	plain := &http.Transport{Protocols: new(http.Protocols)}
	plain.Protocols.SetUnencryptedHTTP2(true)
	defer plain.CloseIdleConnections()
	res, err := (&http.Client{Transport: plain}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err != nil {
		return err
	}
	if !bytes.Equal(answer, serving) {
		return fmt.Errorf("%s does not serve %s: %s%s", address, service, res.Header.Get("Grpc-Message"), res.Trailer.Get("Grpc-Message"))
	}
	return nil
}
