package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// classified gives an error of the server or the network a kind, and adds the address.
// Errors with a kind keep it.
func (p clusterFolder) classified(ctx context.Context, err error) error {
	refused, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return transport.Fail(ctx, p.repo, "publish", err, git.Secret(p.repo.User))
	}
	kind, hint := p.meaning(refused)
	text := transport.Redact(p.repo, fmt.Sprintf("%s: %s", refused.Code, refused.Error()), git.Secret(p.repo.User))
	why := fmt.Errorf("the server answers %d %s%s", refused.StatusCode, text, hint)
	return errs.E(kind, "publish", p.repo.URL, why)
}

// meaning returns the kind of an error answer, and what to do about it.
func (p clusterFolder) meaning(r minio.ErrorResponse) (kind errs.Kind, hint string) {
	switch r.Code {
	case "NoSuchBucket":
		return errs.NotFound, "; create bucket " + p.bucket + ", or correct bucket and endpoint"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "XAdminUserNotFound":
		return errs.Unauthorized, "; correct accessKey, secretKey or region"
	case "RequestTimeTooSkewed":
		return errs.Unauthorized, "; the clocks of the server and of this machine differ"
	case "AuthorizationHeaderMalformed", "InvalidRegion", "PermanentRedirect", "TemporaryRedirect":
		return errs.Invalid, "; correct region and endpoint"
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestLimitExceeded", "TooManyRequests":
		return errs.Throttled, ""
	}
	return byStatus(r.StatusCode)
}

// byStatus is meaning for answers without a known code.
func byStatus(status int) (kind errs.Kind, hint string) {
	switch {
	case status >= 300 && status < 400:
		return errs.Invalid, "; it redirects, which is not followed: correct region and endpoint"
	case status == http.StatusTooManyRequests:
		return errs.Throttled, ""
	case status == http.StatusForbidden:
		return errs.Forbidden, "; the key must be allowed to list the bucket, and to put and delete objects below the prefix"
	case status >= http.StatusInternalServerError || status == 0:
		return errs.Unavailable, ""
	}
	return errs.FromStatus(status), ""
}
