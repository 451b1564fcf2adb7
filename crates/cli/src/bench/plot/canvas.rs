//! What all drawings share: size, colours, titles, legends.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::output::one_line;

/// Why a drawing failed, as the drawing library says it.
pub(super) type DrawError = Box<dyn std::error::Error>;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of a drawing, in pixels.
pub(super) const WIDTH: u32 = 900;

/// Space at the top for two lines of titles.
const TITLES: u32 = 64;

/// Space at the right for names.
pub(super) const LEGEND: u32 = 190;

/// Height of a line of the legend.
const NAME: i32 = 24;

/// What most people can tell apart (Okabe and Ito, "Color Universal Design", 2008).
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

pub(super) const GRID: RGBColor = RGBColor(222, 222, 222);
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);

/// The colour of the engine of that place.
pub(super) fn colour(at: usize) -> RGBColor {
    PALETTE[at % PALETTE.len()]
}

pub(super) fn text(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

pub(super) fn anchored(size: i32, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    text(size).pos(Pos::new(horizontal, vertical))
}

/// Width of text of that size, in pixels, roughly: fonts are the reader's.
pub(super) fn width(text: &str, size: f64) -> f64 {
    0.56 * size * text.chars().count() as f64
}

/// Text as a drawing may hold it, whoever wrote it: XML has no control characters.
pub(super) fn plain(text: &str) -> String {
    one_line(text).into_owned()
}

/// A name that fits into the legend.
fn shortened(name: &str) -> String {
    let name = plain(name);
    let room = f64::from(LEGEND) - 38.0;
    if width(&name, 13.0) <= room {
        return name;
    }
    let fits = name.chars().scan(String::new(), |begun, next| {
        begun.push(next);
        (width(begun, 13.0) + width("…", 13.0) <= room).then_some(next)
    });
    fits.chain(['…']).collect()
}

/// Height of a drawing whose chart is that high, with room for a legend of that many names.
pub(super) fn height(chart: u32, num_names: usize) -> u32 {
    let lines = u32::try_from(num_names).unwrap_or(u32::MAX).saturating_add(1);
    chart.max(TITLES.saturating_add(lines.saturating_mul(NAME.unsigned_abs())))
}

/// A line of a legend.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) colour: RGBColor,
    /// Width of its stroke; 0 for a box.
    pub(super) stroke: u32,
}

/// White paper with titles and a legend; gives what is left of it.
pub(super) fn paper<'a>(
    root: &Area<'a>,
    (title, subtitle): (&str, &str),
    names: &[Name],
) -> Result<Area<'a>, DrawError> {
    root.fill(&WHITE)?;
    let (titles, below) = root.split_vertically(TITLES);
    titles.draw(&Text::new(plain(title), (20, 14), text(20)))?;
    titles.draw(&Text::new(plain(subtitle), (20, 40), text(14)))?;
    let (chart, legend) = below.split_horizontally(WIDTH - LEGEND);
    for (y, name) in (0..).map(|at| NAME * (at + 1)).zip(names) {
        let style = name.colour.stroke_width(name.stroke);
        if name.stroke == 0 {
            legend.draw(&Rectangle::new([(8, y - 6), (30, y + 6)], name.colour.filled()))?;
        } else {
            legend.draw(&PathElement::new([(8, y), (30, y)], style))?;
        }
        let style = anchored(13, HPos::Left, VPos::Center);
        legend.draw(&Text::new(shortened(&name.text), (38, y), style))?;
    }
    Ok(chart)
}
