package main

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Sizes in pixels, at one dot a point.
const (
	width        = 1920
	columns      = 6
	statColumns  = 8
	graphHeight  = 164
	statHeight   = 54
	headerHeight = 20
	margin       = 6
)

// Picture returns the board as a PNG.
func (b Board) Picture() ([]byte, error) {
	height := vg.Length(margin)
	for _, r := range b.Rows {
		height += r.height()
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(72), vgimg.UseBackgroundColor(color.White))
	whole := vgdraw.New(canvas)
	top := height
	for _, r := range b.Rows {
		if err := r.draw(vgdraw.Crop(whole, 0, 0, top-r.height(), top-height), b.end()); err != nil {
			return nil, err
		}
		top -= r.height()
	}
	// Few colours make a small file, and text as well as lines need no more.
	picture := canvas.Image()
	few := image.NewPaletted(picture.Bounds(), palette())
	draw.Draw(few, few.Bounds(), picture, image.Point{}, draw.Src)
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}

func (r Row) grid() (perLine int, cell vg.Length) {
	if len(r.Panels) > 0 && r.Panels[0].Stat {
		return statColumns, statHeight
	}
	return columns, graphHeight
}

func (r Row) height() vg.Length {
	perLine, cell := r.grid()
	lines := (len(r.Panels) + perLine - 1) / perLine
	return headerHeight + vg.Length(lines)*cell
}

func (r Row) draw(area vgdraw.Canvas, end float64) error {
	area.FillText(style(12, true), vg.Point{X: area.Min.X + margin, Y: area.Max.Y - 15}, r.Title)
	perLine, cell := r.grid()
	w := vg.Length(width / perLine)
	for i, p := range r.Panels {
		left, top := area.Min.X+vg.Length(i%perLine)*w, area.Max.Y-headerHeight-vg.Length(i/perLine)*cell
		box := vg.Rectangle{Min: vg.Point{X: left + 2, Y: top - cell + 4}, Max: vg.Point{X: left + w - 2, Y: top}}
		area.StrokeLines(vgdraw.LineStyle{Color: color.Gray{0xcc}, Width: 1}, outline(box))
		box.Min.X, box.Min.Y, box.Max.X, box.Max.Y = box.Min.X+margin, box.Min.Y+margin/2, box.Max.X-margin, box.Max.Y-margin/2
		if err := p.draw(vgdraw.Canvas{Canvas: area.Canvas, Rectangle: box}, end); err != nil {
			return err
		}
	}
	return nil
}

func outline(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
}

// colours tell lines apart.
func colours() []color.RGBA {
	return []color.RGBA{
		{0x37, 0x87, 0x2d, 0xff}, {0xe0, 0xb4, 0x00, 0xff}, {0x1f, 0x60, 0xc4, 0xff}, {0xc4, 0x16, 0x2a, 0xff},
		{0x8f, 0x3b, 0xb8, 0xff}, {0xfa, 0x64, 0x00, 0xff}, {0x00, 0x8b, 0x8b, 0xff}, {0x70, 0x70, 0x70, 0xff},
	}
}

// pale is the colour of an area below a line.
func pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 2*255) / 3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

func palette() (out color.Palette) {
	for grey := range 16 {
		out = append(out, color.Gray{uint8(grey * 17)})
	}
	for _, c := range colours() {
		out = append(out, c, pale(c))
	}
	return out
}
