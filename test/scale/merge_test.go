package scale

import (
	"encoding/json"
	"errors"
)

// mergePatch decodes into result what a JSON merge patch (RFC 7386) makes of a document.
func mergePatch(document, patch []byte, result any) error {
	var d, p any
	if err := errors.Join(json.Unmarshal(document, &d), json.Unmarshal(patch, &p)); err != nil {
		return err
	}
	merged, err := json.Marshal(merge(d, p))
	if err != nil {
		return err
	}
	return json.Unmarshal(merged, result)
}

func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	members, ok := target.(map[string]any)
	if !ok {
		members = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(members, name)
		} else {
			members[name] = merge(members[name], value)
		}
	}
	return members
}
