package gcpemulator

import "strings"

// base begins the URL of every resource in answers, whatever the endpoint was called.
const base = "https://www.googleapis.com/compute/v1/"

func (p *project) path(parts ...string) string {
	return "projects/" + p.id + "/" + strings.Join(parts, "/")
}

func (p *project) link(parts ...string) string { return base + p.path(parts...) }

// partial strips whatever may precede the project, or the zone, in a reference: requests may name resources by full or
// partial URLs. https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert
func partial(ref string) string {
	for _, mark := range []string{"/compute/v1/", "/v1/"} {
		if _, rest, ok := strings.Cut(ref, mark); ok {
			return rest
		}
	}
	return strings.TrimPrefix(ref, "/")
}

// resolve returns the absolute path of ref, which may leave out the project.
func (p *project) resolve(ref string) string {
	ref = partial(ref)
	if strings.HasPrefix(ref, "projects/") {
		return ref
	}
	return p.path(ref)
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
