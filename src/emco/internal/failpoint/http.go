package failpoint

import (
	"encoding/json"
	"io"
	"net/http"
)

// maxRules bounds what Set.ServeHTTP reads, in bytes.
const maxRules = 64 << 10

// ServeHTTP lets a test in another process control the set: PUT arms the rules of the body,
// and both PUT and GET answer with the counts, those from before the PUT.
func (s *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counts := s.Counts()
	if r.Method == http.MethodPut {
		text, err := io.ReadAll(io.LimitReader(r.Body, maxRules))
		if err == nil {
			err = s.Arm(string(text))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(counts)
}
