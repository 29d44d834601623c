//! Plain tables: columns aligned with spaces, a header, no borders, so that they can be cut and pasted.

use clap::builder::styling::{Effects, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets};

use super::paint;

const HEADER: Style = Style::new().effects(Effects::BOLD);

/// A table that may be printed in several parts: later ones keep the widths of earlier ones.
pub(crate) struct Table {
    headers: Vec<&'static str>,
    widths: Vec<u16>,
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
    with_header: bool,
    indent: usize,
}

impl Table {
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Table {
            headers: headers.to_vec(),
            widths: vec![0; headers.len()],
            right: Vec::new(),
            rows: Vec::new(),
            with_header: true,
            indent: 0,
        }
    }

    /// Columns of numbers.
    #[must_use]
    pub(crate) fn align_right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    #[must_use]
    pub(crate) fn indented(mut self, by: usize) -> Self {
        self.indent = by;
        self
    }

    /// For lists of names and values.
    #[must_use]
    pub(crate) fn without_header(mut self) -> Self {
        self.with_header = false;
        self
    }

    /// Cells must be one line of harmless text.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows so far, and the header the first time.
    pub(crate) fn take_text(&mut self, colors: bool) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        grid.force_no_tty();
        if self.with_header {
            grid.add_row(self.headers.iter());
        }
        for row in self.rows.drain(..) {
            grid.add_row(row);
        }
        let last = self.headers.len() - 1;
        for (index, column) in grid.column_iter_mut().enumerate() {
            // Two spaces between columns, none around the table.
            column.set_padding((0, if index == last { 0 } else { 2 }));
            if self.right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if self.widths[index] > 0 {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(self.widths[index])));
            }
        }
        for (width, found) in self.widths.iter_mut().zip(grid.column_max_content_widths()) {
            *width = (*width).max(found + 2);
        }
        let mut text = String::new();
        for (index, line) in grid.lines().enumerate() {
            let line = line.trim_end();
            let header = index == 0 && self.with_header;
            let line = if header { paint(line, HEADER, colors) } else { line.to_owned() };
            text.push_str(&" ".repeat(self.indent));
            text.push_str(&line);
            text.push('\n');
        }
        self.with_header = false;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_parts_keep_the_columns_of_the_first() {
        let mut table = Table::new(&["name", "rows", "note"]).align_right(&[1]);
        table.row(vec!["a long name".to_owned(), "1".to_owned(), "x".to_owned()]);
        assert_eq!(table.take_text(false), "name         rows  note\na long name     1  x\n");
        table.row(vec!["b".to_owned(), "22".to_owned(), String::new()]);
        assert_eq!(table.take_text(false), "b              22\n");
    }
}
