// Package web serves HTTP for all services: handlers that return errors, one
// place that turns errors into answers, bodies within the limit that the handler passes to Body, request ids, one log line
// for each request, streams, ETags, and a server that drains before it stops. It refuses changes that pages of other sites
// request, and gives each project a fair share of the requests that are served at the same time.
package web
