// Package resource serves declared REST resources: a Def declares where a resource's
// documents are, what they refer to and which files and secrets they carry;
// one generic handler does the rest, with upstream's statuses and texts. What else a new resource needs, such as its
// roles in package authz, is in docs/contributing.md.
package resource
