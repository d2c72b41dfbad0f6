package gcp

import "errors"

const (
	// pageSize is the most that the API takes.
	pageSize = 500
	// maxPages is 50,000 things; the API gives an end to every list before.
	maxPages = 100
	// noResults is the warning of a scope of which a page shows nothing.
	noResults = "NO_RESULTS_ON_PAGE"
	// everything is what is unread when a warning names no scope.
	everything = "projects"
)

var errEndless = errors.New("the list does not end")

// eachPage asks for pages, empty ones too, until there is no further token. A list that repeats a token or does not end is
// an error: what it has shown so far is not everything.
func eachPage(page func(token string) (next string, err error)) error {
	seen := map[string]bool{}
	for token := ""; len(seen) < maxPages; {
		next, err := page(token)
		if err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if seen[next] {
			return errEndless
		}
		seen[next], token = true, next
	}
	return errEndless
}
