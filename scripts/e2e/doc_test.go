// Package e2e tests the built programs from outside: one test for each point of the acceptance list,
// with real API servers, real Flux and a real Git server. run.sh runs it.
package e2e
