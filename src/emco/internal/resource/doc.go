// Package resource serves declared REST resources: a Def says where a resource's
// documents are found, what they refer to and which files and secrets they carry;
// one generic handler does the rest, with EMCO's statuses and texts.
package resource
