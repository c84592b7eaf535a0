// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/zonelect/zonelect/internal/plain"
)

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Render writes the page of a history. It writes nothing if the history contradicts itself:
// then the error wraps ErrHistory and says what is wrong. The same history gives the same
// bytes. No control or format character of a text comes into them.
func Render(w io.Writer, h History) error {
	h = h.normalized()
	if err := h.check(); err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString(head())
	if err := pageTemplate.Execute(&text, newPage(h)); err != nil {
		return fmt.Errorf("make the timeline: %w", err)
	}
	text.WriteString("<script>" + script + "</script>\n</body>\n</html>\n")
	if _, err := text.WriteTo(plain.Writer{Writer: w}); err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	return nil
}

// head is what comes before the template. The policy lets only this style and this script
// act, and nothing reach the network.
func head() string {
	return fmt.Sprintf(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '%s'; script-src '%s'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<style>%s</style>
`, hash(style), hash(script), style)
}

// hash is how a policy names a text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
