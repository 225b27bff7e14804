package keepdeps

import (
	_ "github.com/go-git/go-git/v5/plumbing/transport/client"
	_ "golang.org/x/crypto/ssh/knownhosts"
	_ "pgregory.net/rapid"
)
