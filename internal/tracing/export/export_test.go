package export

// NewFailures is what tells of spans that do not arrive.
var NewFailures = newFailures
