// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// color is what a class of shapes or texts looks like on a light and on a dark page.
type color struct{ light, dark string }

// paper is the background, and ink is for text.
var (
	paper = color{"#ffffff", "#0d1117"}
	ink   = color{"#1f2328", "#e6edf3"}
	faint = color{"#59636e", "#9198a1"}
	line  = color{"#818b98", "#6e7681"}
)

// fills are the classes of boxes and bars.
var fills = map[string]color{
	"good":  {"#aceebb", "#12561f"},
	"wait":  {"#fff3b0", "#5c4813"},
	"bad":   {"#ffcecb", "#792e2e"},
	"calm":  {"#ddf4ff", "#16385f"},
	"plain": {"#f6f8fa", "#161b22"},
	"dark":  {"#d1d9e0", "#3d444d"},
}

// style is the sheet of every picture. Renderers without style sheets use the
// attributes that each element has besides.
func style() string {
	var light, dark strings.Builder
	rule := func(selector, property string, c color) {
		fmt.Fprintf(&light, "  %s { %s: %s }\n", selector, property, c.light)
		fmt.Fprintf(&dark, "    %s { %s: %s }\n", selector, property, c.dark)
	}
	rule(".paper", "fill", paper)
	rule(".ink", "fill", ink)
	rule(".faint", "fill", faint)
	rule(".line", "stroke", line)
	rule(".head", "fill", line)
	for _, name := range classes() {
		rule("."+name, "fill", fills[name])
	}
	rule(".lost", "stroke", color{"#cf222e", "#ff7b72"})
	return light.String() + "  @media (prefers-color-scheme: dark) {\n" + dark.String() + "  }\n"
}

func classes() []string {
	var names []string
	for name := range fills {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// area is where something is drawn.
type area struct {
	x, y, w, h float64
	what       string
}

func (a area) overlaps(b area) bool {
	return a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h
}

// picture is an SVG that grows.
type picture struct {
	name, title   string
	width, height float64
	body          strings.Builder
	texts         []area
}

// String returns the SVG.
func (p *picture) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif">
<title>%[3]s</title>
<!-- Made by docs/pictures: go test ./docs/pictures -update -->
<style>
%[4]s</style>
<rect class="paper" fill="%[5]s" width="%[1]g" height="%[2]g"/>
%[6]s</svg>
`, p.width, p.height, escape(p.title), style(), paper.light, p.body.String())
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}

// bar draws a filled rectangle.
func (p *picture) bar(class string, x, y, w, h float64) {
	fmt.Fprintf(&p.body, `<rect class="%s line" fill="%s" stroke="%s" x="%g" y="%g" width="%g" height="%g" rx="4"/>`+"\n",
		class, fills[class].light, line.light, x, y, w, h)
}

// em is how wide a letter is at most on average, as a share of the font's size.
const em = 0.6

// text writes one line; anchor is start, middle or end.
func (p *picture) text(x, y, size float64, anchor, words string) {
	p.write("ink", ink, "", x, y, size, anchor, words)
}

// note writes one line that matters less.
func (p *picture) note(x, y, size float64, anchor, words string) {
	p.write("faint", faint, "", x, y, size, anchor, words)
}

// heading writes one line in bold.
func (p *picture) heading(x, y, size float64, anchor, words string) {
	p.write("ink", ink, ` font-weight="bold"`, x, y, size, anchor, words)
}

func (p *picture) write(class string, c color, weight string, x, y, size float64, anchor, words string) {
	fmt.Fprintf(&p.body, `<text class="%s" fill="%s" font-size="%g"%s text-anchor="%s" x="%g" y="%g">%s</text>`+"\n",
		class, c.light, size, weight, anchor, x, y, escape(words))
	w := em * size * float64(len([]rune(words)))
	left := map[string]float64{"start": x, "middle": x - w/2, "end": x - w}[anchor]
	p.texts = append(p.texts, area{left, y - 0.8*size, w, size, words})
}

// box draws a bar with a heading and lines in it.
func (p *picture) box(class string, x, y, w, h float64, name string, lines ...string) {
	p.bar(class, x, y, w, h)
	top := y + h/2 - float64(len(lines))*8 + 5
	p.heading(x+w/2, top, 14, "middle", name)
	for i, l := range lines {
		p.text(x+w/2, top+17*float64(i+1), 12, "middle", l)
	}
}

// rule draws a line; dash is empty or the pattern of its dashes.
func (p *picture) rule(x1, y1, x2, y2 float64, dash string) {
	if dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	fmt.Fprintf(&p.body, `<path class="line" fill="none" stroke="%s" stroke-width="1.5"%s d="M%g %gL%g %g"/>`+"\n", line.light, dash, x1, y1, x2, y2)
}

// arrow draws a line, straight along one axis, with a head at its end.
func (p *picture) arrow(x1, y1, x2, y2 float64) {
	p.rule(x1, y1, x2, y2, "")
	dx, dy := sign(x2-x1), sign(y2-y1)
	fmt.Fprintf(&p.body, `<path class="head" fill="%s" d="M%g %gL%g %gL%g %gZ"/>`+"\n", line.light,
		x2, y2, x2-8*dx-4*dy, y2-8*dy-4*dx, x2-8*dx+4*dy, y2-8*dy+4*dx)
}

// connect draws a connection with a head at its end; a dead one is dashed, and has no head.
func (p *picture) connect(x1, y1, x2, y2 float64, dead bool) {
	if dead {
		fmt.Fprintf(&p.body, `<path class="lost" fill="none" stroke="#cf222e" stroke-width="2" stroke-dasharray="5 4" d="M%g %gL%g %g"/>`+"\n", x1, y1, x2, y2)
		return
	}
	p.rule(x1, y1, x2, y2, "")
	long := math.Hypot(x2-x1, y2-y1)
	dx, dy := (x2-x1)/long, (y2-y1)/long
	fmt.Fprintf(&p.body, `<path class="head" fill="%s" d="M%g %gL%.1f %.1fL%.1f %.1fZ"/>`+"\n", line.light,
		x2, y2, x2-8*dx-4*dy, y2-8*dy+4*dx, x2-8*dx+4*dy, y2-8*dy-4*dx)
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// clashes returns texts that overlap each other or leave the picture.
func (p *picture) clashes() []string {
	var all []string
	for i, a := range p.texts {
		if a.x < 0 || a.y < 0 || a.x+a.w > p.width || a.y+a.h > p.height {
			all = append(all, fmt.Sprintf("%q leaves the picture", a.what))
		}
		for _, b := range p.texts[i+1:] {
			if a.overlaps(b) {
				all = append(all, fmt.Sprintf("%q overlaps %q", a.what, b.what))
			}
		}
	}
	return all
}
