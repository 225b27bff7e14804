package agentreports

import (
	"testing"

	"go.uber.org/goleak"
)

// Tests that leave goroutines behind fail.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
