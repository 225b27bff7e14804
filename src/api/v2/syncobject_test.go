package v2_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/v2"
)

func TestAddressesInSyncObjects(t *testing.T) {
	t.Parallel()
	for value, fine := range map[string]bool{
		"https://git.example.org/r.git":        true,
		"ssh://git@git.example.org/r.git":      true,
		"oci://registry.example.org/edge":      true,
		"ext::sh -c true":                      false,
		"ftp://example.org/r":                  false,
		"oci://u:planted@registry.example.org": false,
		"oci://169.254.169.254/edge":           false,
	} {
		o := v2.SyncObject{}
		o.Metadata.Name = "o"
		o.Spec.KV = []map[string]v2.Scalar{{"url": v2.Scalar(value)}}
		if err := o.Validate(); (err == nil) != fine {
			t.Errorf("url %s: %v", value, err)
		}
	}
}

func TestWhichKeysOfABucketAreSecret(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"endpoint": false, "bucket": false, "region": false, "prefix": false, "accessKey": true, "secretKey": true} {
		if got := v2.IsSecretKey(key); got != want {
			t.Errorf("IsSecretKey(%s) = %t", key, got)
		}
	}
}
