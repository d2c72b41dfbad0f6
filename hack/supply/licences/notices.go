package licences

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

const rule = "================================================================================\n"

// Notices is what goes with programs that have the modules in them: which they are, and the texts of their licences and
// notices, each text once.
func Notices(modules []Found) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Third-party software in these programs\n\n")
	var texts []string
	users := map[string][]string{}
	for _, m := range modules {
		fmt.Fprintf(&out, "%s %s: %s\n", m.Path, m.Version, m.Expression())
		for _, file := range slices.Concat(m.Licences, m.Notices) {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n")) + "\n"
			if users[text] == nil {
				texts = append(texts, text)
			}
			if name := m.Path + " " + m.Version; !slices.Contains(users[text], name) {
				users[text] = append(users[text], name)
			}
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%sThis is the text for\n", rule)
		for _, u := range users[text] {
			fmt.Fprintf(&out, "  %s\n", u)
		}
		fmt.Fprintf(&out, "%s\n%s", rule, text)
	}
	return out.Bytes(), nil
}
