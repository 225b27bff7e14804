package errs

import "net/http"

// statuses holds the HTTP status a server answers for each kind. A missing parent
// and a duplicate are both 409, as EMCO API v2 clients expect.
var statuses = [...]int{
	Internal:      http.StatusInternalServerError,
	Malformed:     http.StatusUnprocessableEntity,
	Invalid:       http.StatusBadRequest,
	NotFound:      http.StatusNotFound,
	Exists:        http.StatusConflict,
	Conflict:      http.StatusConflict,
	TooLarge:      http.StatusRequestEntityTooLarge,
	Unauthorized:  http.StatusUnauthorized,
	Forbidden:     http.StatusForbidden,
	NotAcceptable: http.StatusNotAcceptable,
	Throttled:     http.StatusTooManyRequests,
	Unavailable:   http.StatusServiceUnavailable,
}

// Status returns the HTTP status of a kind, 500 for one that is not listed.
func Status(k Kind) int {
	if int(k) < len(statuses) {
		return statuses[k]
	}
	return http.StatusInternalServerError
}

// FromStatus returns the kind of an HTTP status above 299. It is the inverse of
// Status except for 409, which is always Conflict: the caller knows whether a thing of that
// name exists. Statuses without a kind get the nearest one.
func FromStatus(status int) Kind {
	switch status {
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case http.StatusGone:
		return NotFound
	case http.StatusMultipleChoices, http.StatusUnsupportedMediaType:
		return NotAcceptable
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return Unavailable
	}
	for kind, s := range statuses {
		if s == status {
			return Kind(kind)
		}
	}
	if status >= 400 && status < 500 {
		return Invalid
	}
	return Internal
}
