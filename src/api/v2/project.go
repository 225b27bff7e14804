package v2

// Project is the root of everything that belongs to one team.
type Project struct {
	Named
}
