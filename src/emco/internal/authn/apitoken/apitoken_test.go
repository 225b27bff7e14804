package apitoken_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
)

func TestTokensAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token := apitoken.New()
		if !apitoken.Valid(token) || len(token) != 54 {
			t.Fatalf("%q is not valid", token)
		}
		if seen[token] {
			t.Fatalf("%q was made twice", token)
		}
		seen[token] = true
	}
}

func TestOneWrongCharacterIsFound(t *testing.T) {
	t.Parallel()
	token := apitoken.New()
	for i := range token {
		other := byte('x')
		if token[i] == other {
			other = 'y'
		}
		if wrong := token[:i] + string(other) + token[i+1:]; apitoken.Valid(wrong) {
			t.Errorf("%q is valid, character %d is wrong", wrong, i)
		}
	}
	for _, wrong := range []string{"", "emco_", token + "0", token[1:], strings.ToUpper(token)} {
		if apitoken.Valid(wrong) {
			t.Errorf("%q is valid", wrong)
		}
	}
}

func TestDigestIsSHA256(t *testing.T) {
	t.Parallel()
	if got := apitoken.Digest("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("Digest = %s", got)
	}
}
