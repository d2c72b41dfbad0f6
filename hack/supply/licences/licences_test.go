package licences_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/licences"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	isc = `Copyright (c) 2020 Somebody

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided
that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR
CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT,
NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`
	gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program.  If not, see
<https://www.gnu.org/licenses/>.
`
)

// papers writes texts as the licences of a module.
func papers(t *testing.T, module string, texts ...string) shipped.Papers {
	t.Helper()
	out := shipped.Papers{Module: shipped.Module{Path: module, Version: "v1.2.3"}}
	dir := t.TempDir()
	for i, text := range texts {
		file := filepath.Join(dir, "LICENSE."+string(rune('a'+i)))
		must(t, os.WriteFile(file, []byte(text), 0o600))
		out.Licences = append(out.Licences, file)
	}
	return out
}

func TestTermsAreToldApart(t *testing.T) {
	apache, err := os.ReadFile("../../../LICENSE")
	must(t, err)
	for _, c := range []struct {
		name  string
		texts []string
		want  []string // identifiers
		says  string   // of the error
	}{
		{name: "ISC", texts: []string{isc}, want: []string{"ISC"}},
		{name: "two", texts: []string{isc, string(apache), isc}, want: []string{"Apache-2.0", "ISC"}},
		{name: "one that asks for too much", texts: []string{gpl}, says: "example.com/it@v1.2.3: LICENSE.a: licence GPL"},
		{name: "one beside it that asks for too much", texts: []string{isc, gpl}, says: "example.com/it@v1.2.3: LICENSE.b: licence GPL"},
		{name: "one below it that asks for too much", texts: []string{isc + "\n" + gpl}, says: "LICENSE.a: licence GPL"},
		{name: "terms of somebody's own", texts: []string{"You may use this on Sundays."}, says: "LICENSE.a: unknown licence"},
		{name: "more terms of somebody's own", texts: []string{isc + strings.Repeat("But on Sundays nobody may use this for anything at all. ", 20)},
			says: "LICENSE.a: unknown licence"},
		{name: "a mere pointer", texts: []string{"See https://www.apache.org/licenses/LICENSE-2.0"}, says: "unknown licence"},
		{name: "empty", texts: []string{""}, says: "unknown licence"},
		{name: "none", says: "example.com/it@v1.2.3: no licence"},
	} {
		got, err := licences.Find([]shipped.Papers{papers(t, "example.com/it", c.texts...)})
		switch {
		case c.says == "" && (err != nil || !slices.Equal(got[0].IDs, c.want)):
			t.Errorf("%s: %v, %v", c.name, got[0].IDs, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestAllThatIsRefusedIsNamedAtOnce(t *testing.T) {
	_, err := licences.Find([]shipped.Papers{papers(t, "example.com/a", gpl), papers(t, "example.com/b", isc), papers(t, "example.com/c", gpl)})
	if err == nil || !strings.Contains(err.Error(), "example.com/a@") || !strings.Contains(err.Error(), "example.com/c@") || strings.Contains(err.Error(), "example.com/b@") {
		t.Errorf("%v", err)
	}
}

func TestNoticesHoldEachTextOnceAndSayWhoseItIs(t *testing.T) {
	withNotice := papers(t, "example.com/b", isc)
	notice := filepath.Join(t.TempDir(), "NOTICE")
	must(t, os.WriteFile(notice, []byte("Made by B.\r\n"), 0o600))
	withNotice.Notices = []string{notice}
	found, err := licences.Find([]shipped.Papers{papers(t, "example.com/a", isc), withNotice})
	must(t, err)
	out, err := licences.Notices(found)
	must(t, err)
	text := string(out)
	for want, times := range map[string]int{
		"example.com/a v1.2.3: ISC\n": 1, "  example.com/a v1.2.3\n  example.com/b v1.2.3\n": 1, strings.TrimSpace(isc): 1, "  example.com/b v1.2.3\n" + strings.Repeat("=", 80) + "\n\nMade by B.\n": 1,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is in it %d times, want %d:\n%s", want, n, times, text)
		}
	}
}
