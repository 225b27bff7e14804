// Package otlp posts spans to a collector by the protocol of OpenTelemetry over HTTP.
//
// It is apart from package tracing because the exporter's imports are large, and package web imports tracing.
package otlp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter posts spans to one collector. The caller's context bounds the time of a post.
type Exporter struct {
	sdktrace.SpanExporter
	client *http.Client
}

// Open returns an exporter that posts to the URL endpoint, with the TLS of secure; nil trusts the authorities of the
// system. It connects with the first spans. The caller must shut it down.
func Open(endpoint string, secure *tls.Config) (*Exporter, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	client := &http.Client{Transport: transport}
	posts, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, fmt.Errorf("open the exporter of %s: %w", endpoint, err)
	}
	return &Exporter{SpanExporter: posts, client: client}, nil
}

// Shutdown ends the requests that run, and closes the connections.
func (e *Exporter) Shutdown(ctx context.Context) error {
	err := e.SpanExporter.Shutdown(ctx)
	e.client.CloseIdleConnections()
	return err
}
