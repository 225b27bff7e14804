// Package web serves HTTP for all services: handlers that return errors, one
// place that turns errors into answers, bounded bodies, request ids, one log line
// for each request, and a server that drains before it stops.
package web
