package web

import (
	"encoding/json"
	"net/http"
)

// JSON answers with one JSON value followed by a newline.
func JSON[T any](w http.ResponseWriter, status int, value T) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Raw(w, status, data)
}

// Raw answers with JSON text, followed by a newline.
func Raw(w http.ResponseWriter, status int, data []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data[:len(data):len(data)], '\n')) // a client that hung up is no error of ours
	return nil
}
