// Package apitoken makes API tokens, the credentials of programs, checks their form and computes their digests.
// Package access/grants decides whether a token is valid.
package apitoken

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

// A token is the prefix, 32 random bytes, and a checksum of what is before, both in base62 of fixed length. The
// prefix lets scanners of repositories find tokens; the checksum lets the server refuse typing errors
// without asking the store.
const (
	Prefix     = "emco_"
	secretSize = 32
	secretLen  = 43 // base62 digits of 32 bytes
	sumLen     = 6  // base62 digits of 4 bytes
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// New returns a new token.
func New() string {
	var secret [secretSize]byte
	_, _ = rand.Read(secret[:]) // documented never to fail
	body := Prefix + base62(new(big.Int).SetBytes(secret[:]), secretLen)
	return body + checksum(body)
}

// Valid reports whether a text has the form of a token.
func Valid(text string) bool {
	if len(text) != len(Prefix)+secretLen+sumLen || !strings.HasPrefix(text, Prefix) {
		return false
	}
	body := text[:len(text)-sumLen]
	return checksum(body) == text[len(body):]
}

// Digest returns what is kept of a token: its SHA-256 in hexadecimal. A token has 256 random bits, so a
// plain digest cannot be guessed back.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func checksum(body string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), sumLen)
}

// base62 writes a number with a fixed number of digits.
func base62(n *big.Int, length int) string {
	out, base, digit := make([]byte, length), big.NewInt(int64(len(digits))), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = digits[digit.Int64()]
	}
	return string(out)
}
