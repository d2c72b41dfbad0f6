// Package dashboard describes the Grafana dashboard of the operator and writes it as JSON.
//
// The description is what people edit: one file per row. config/monitoring/dashboard/egress-proxies.json, which people
// import, is generated from it:
//
//	go test ./hack/monitoring/dashboard -run TestTheFileIsUpToDate -update
//
// What is read back for a run, with Parse, is that file, so that what is proved is what people import.
package dashboard
