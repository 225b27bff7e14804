package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// terms are words that identify a type alone, because Go, Git, Kubernetes or HTTP give them
// one meaning.
var terms = set(`
	app backend backoff barrier batch blob body branch budget builder cache chunk class client cluster commit
	condition config configuration conn controller converter counter credentials decoder deployment diff digest
	document encoder endpoint entry event fence field filter flags form handler head header history host identity
	index inventory iterator key kind kubeconfig kustomization label leaf lease lexer limiter listener loader lock
	manifest metrics mirror namespace node object operation option options packer page pair parser patch path phase
	plan planner poller pool printer process properties provider proxy query queue reader recorder ref reference
	renderer report reporter repository request resolver resource response revision role route router rule runner
	scanner scheduler schema server service session set shard signer snapshot source span spec state status step
	store stream suite summary sweeper syncer table target template token tracker trailers transport tree txn
	unpacker value version visitor watch watcher window worker writer`)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// vague reports whether an unexported type's name is one word of everyday language, which
// does not identify the type.
func vague(name string) bool { return wordsOf(name) == 1 && !terms[name] }

// wordsOf counts the words of a name in camel case; a run of capitals is one word.
func wordsOf(name string) (n int) {
	capital := true // whether the rune before is one
	for i, r := range name {
		now := unicode.IsUpper(r)
		next, _ := utf8.DecodeRuneInString(name[i+utf8.RuneLen(r):])
		if i == 0 || now && (!capital || unicode.IsLower(next)) {
			n++
		}
		capital = now
	}
	return n
}
