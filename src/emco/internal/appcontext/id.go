package appcontext

// HeadID identifies a Head. Its deployment usually has the same id; see Head.Deployment.
type HeadID string
