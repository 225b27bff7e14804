// Package probe checks once whether a server is reachable. Callers that wait repeat the check.
package probe

import (
	"context"
	"fmt"
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
