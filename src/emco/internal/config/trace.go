package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Trace configures where spans of OpenTelemetry go.
type Trace struct {
	Endpoint string `json:"endpoint" help:"URL where EMCO posts spans of OpenTelemetry by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; empty: nothing is traced"`
	CA       string `json:"ca" help:"PEM file with the certificate authorities of trace.endpoint; empty: those of the system"`
	Ratio    Share  `json:"ratio" help:"share of the requests that begin a trace, from 0 to 1; a known caller whose own span is recorded always begins one"`
}

// Share is a part of a whole, from 0 to 1.
type Share float64

// String writes the share as a decimal number.
func (s Share) String() string { return strconv.FormatFloat(float64(s), 'f', -1, 64) }

// MarshalText writes the share as a decimal number.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a decimal number.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*s = Share(v)
	return err
}

func (t Trace) validate(bad reporter) {
	if !(t.Ratio >= 0 && t.Ratio <= 1) { // NaN is neither
		bad("trace.ratio", "must be from 0 to 1")
	}
	if t.CA != "" && !strings.HasPrefix(t.Endpoint, "https://") {
		bad("trace.ca", "needs trace.endpoint with https")
	}
	if t.Endpoint == "" {
		return
	}
	u, err := outbound.ReadURL(t.Endpoint)
	if err == nil && (u.RawQuery != "" || u.Fragment != "") {
		err = errors.New("it must not have a query")
	}
	if err == nil && (u.Path == "" || u.Path == "/") {
		err = errors.New("it needs a path, which is /v1/traces for most collectors")
	}
	if err != nil {
		bad("trace.endpoint", "%s", err)
	}
}
