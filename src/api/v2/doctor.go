package v2

// DoctorAnswer is what GET /v2/views/doctor and GET /v2/views/doctor/branches found.
type DoctorAnswer struct {
	Faults   []DoctorFault `json:"faults"`
	More     int           `json:"more,omitempty"`     // faults that are left out
	Continue string        `json:"continue,omitempty"` // of the next page of branches; empty: there is none
}

// DoctorFault is a contradiction that EMCO does not repair by itself.
type DoctorFault struct {
	Subject string `json:"subject"` // a document, a deployment, a branch, or a key in etcd
	Fault   string `json:"fault"`   // with what to do
}
