package walk

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// step is one thing that a page has its reader do.
type step struct {
	line    int
	command string
	// stays is what a command that does not end says when it is ready; "" for one that ends.
	stays string
	// want is what it prints, nil for whatever it may be.
	want []string
}

var (
	marker = regexp.MustCompile(`^<!-- walk(?:: (.*))? -->$`)
	stays  = regexp.MustCompile(`^stays until "([^"]+)"$`)
	fence  = regexp.MustCompile("^```([a-z]*)$")
)

// stepsOf reads the marked blocks of a page.
func stepsOf(path string) ([]step, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(strings.Split(string(data), "\n"))
}

func parse(lines []string) (steps []step, err error) {
	for i := 0; i < len(lines); i++ {
		m := marker.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.HasPrefix(lines[i], "<!-- walk") {
				return nil, fmt.Errorf("line %d: this is no marker: %s", i+1, lines[i])
			}
			continue
		}
		f := []string(nil)
		if i+1 < len(lines) {
			f = fence.FindStringSubmatch(lines[i+1])
		}
		if f == nil {
			return nil, fmt.Errorf("line %d: no block follows the marker", i+1)
		}
		first := i + 2
		end := first
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", i+2)
		}
		if steps, err = add(steps, f[1], m[1], lines[first:end], first+1); err != nil {
			return nil, err
		}
		i = end
	}
	return steps, nil
}

// add appends what one block says.
func add(steps []step, language, how string, block []string, line int) ([]step, error) {
	wait := ""
	if how != "" {
		m := stays.FindStringSubmatch(how)
		if m == nil {
			return nil, fmt.Errorf("line %d: walk: %q: want nothing, or stays until \"words\"", line-2, how)
		}
		wait = m[1]
	}
	switch language {
	case "console":
		found, err := console(block, line)
		if err != nil {
			return nil, err
		}
		if wait != "" {
			if len(found) != 1 {
				return nil, fmt.Errorf("line %d: a terminal of its own takes one command, not %d", line, len(found))
			}
			found[0].stays = wait
		}
		return append(steps, found...), nil
	case "sh":
		return append(steps, step{line: line, command: strings.Join(block, "\n"), stays: wait}), nil
	case "text":
		if len(steps) == 0 || steps[len(steps)-1].want != nil || wait != "" {
			return nil, fmt.Errorf("line %d: there is no command that this is the output of", line)
		}
		steps[len(steps)-1].want = block
		return steps, nil
	}
	return nil, fmt.Errorf("line %d: a block of language %q cannot be followed: want console, sh or text", line, language)
}

// console splits commands from what they print. A command goes on while its lines end with a backslash.
func console(block []string, line int) ([]step, error) {
	var out []step
	goesOn := false
	for i, l := range block {
		switch {
		case goesOn:
			out[len(out)-1].command += "\n" + l
		case strings.HasPrefix(l, "$ "):
			out = append(out, step{line: line + i, command: strings.TrimPrefix(l, "$ ")})
		case len(out) == 0:
			return nil, fmt.Errorf("line %d: output without a command", line+i)
		default:
			out[len(out)-1].want = append(out[len(out)-1].want, l)
			continue
		}
		goesOn = strings.HasSuffix(l, `\`)
	}
	return out, nil
}

var blanks = regexp.MustCompile(`\s+`)

// differs says how got is not what a page says, "" where it is.
func differs(want, got []string) string {
	pattern := `\A`
	for _, l := range want {
		if strings.TrimSpace(l) == "…" {
			pattern += `(?:[^\n]*\n)*?`
			continue
		}
		parts := strings.Split(blanks.ReplaceAllString(strings.TrimSpace(l), " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern += strings.Join(parts, `[^\n]*`) + `\n`
	}
	text := ""
	for _, l := range got {
		text += blanks.ReplaceAllString(strings.TrimSpace(l), " ") + "\n"
	}
	if regexp.MustCompile(pattern + `\z`).MatchString(text) {
		return ""
	}
	return fmt.Sprintf("the page says\n\t%s\nand what came is\n\t%s", strings.Join(want, "\n\t"), strings.Join(got, "\n\t"))
}
