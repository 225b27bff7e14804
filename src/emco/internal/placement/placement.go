// Package placement decides on which clusters an app runs, and says why.
package placement
