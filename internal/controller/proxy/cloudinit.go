package proxy

import (
	"fmt"
	"regexp"
	"strings"
)

// Names of the variables that a cloud-init template may use.
const (
	varPort     = "PROXY_PORT"
	varUsername = "PROXY_USERNAME"
	varPassword = "PROXY_PASSWORD"
)

var (
	variable  = regexp.MustCompile(`\$?\$\{(PROXY_PORT|PROXY_USERNAME|PROXY_PASSWORD)\}`)
	safeValue = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,128}$`)
)

// render fills values into template. `$${PROXY_PORT}` yields a literal `${PROXY_PORT}`; any other `${…}` is left alone.
// used holds the values that the template really depends on. Errors name the variable, never its value: a value that
// a shell or YAML would read as more than a word is refused instead of quoted, for no quoting fits both.
func render(template string, values map[string]string) (out string, used map[string]string, err error) {
	used = map[string]string{}
	out = variable.ReplaceAllStringFunc(template, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := m[2 : len(m)-1]
		value, ok := values[name]
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("cloud-init uses ${%s}, but spec.auth names no credentials", name)
		case !safeValue.MatchString(value):
			err = fmt.Errorf("the value of ${%s} does not match %s and cannot be put into cloud-init", name, safeValue)
		}
		used[name] = value
		return value
	})
	if err != nil {
		return "", nil, err
	}
	return out, used, nil
}
