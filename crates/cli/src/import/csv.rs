//! CSV: one row an event.

use std::{fs::File, io::BufReader};

use csv::{ByteRecord, ReaderBuilder};

use super::{
    mapping::{Columns, Mapping},
    quotes::Quotes,
    row::RowRules,
};
use crate::ingest::source::{BadLine, EventSource, Line};

/// How the file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) has_headers: bool,
}

/// A CSV file that is being read.
pub(crate) struct CsvRows {
    reader: csv::Reader<Quotes<BufReader<File>>>,
    names: Vec<String>,
    columns: Columns,
    rules: RowRules,
    from_line: u64,
    record: ByteRecord,
    /// Without headers the first row is both looked at and taken.
    first: Option<ByteRecord>,
    ended: bool,
}

impl CsvRows {
    /// Reads the header. The error is about the file as a whole.
    pub(crate) fn open(
        file: File,
        dialect: Dialect,
        mapping: &Mapping,
        rules: RowRules,
        from_line: u64,
    ) -> Result<Self, String> {
        let mut reader = ReaderBuilder::new()
            .delimiter(dialect.delimiter)
            .has_headers(false)
            .flexible(true)
            .from_reader(Quotes::new(BufReader::with_capacity(256 * 1024, file), dialect.delimiter));
        let mut first = ByteRecord::new();
        if !reader.read_byte_record(&mut first).map_err(|error| error.to_string())? {
            return Err("the file is empty".to_owned());
        }
        if reader.get_ref().is_left_open() {
            return Err("a quote is opened in the first row and never closed; is the file cut off?".to_owned());
        }
        let names = match dialect.has_headers {
            true => header(&first)?,
            false => (1..=first.len()).map(|number| number.to_string()).collect(),
        };
        let columns = mapping.resolve(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let first = (!dialect.has_headers).then_some(first);
        Ok(CsvRows { reader, names, columns, rules, from_line, record: ByteRecord::new(), first, ended: false })
    }

    fn read(&mut self) -> Option<Result<(), BadLine>> {
        if let Some(first) = self.first.take() {
            self.record = first;
            return Some(Ok(()));
        }
        match self.reader.read_byte_record(&mut self.record) {
            // Whatever follows the quote has become part of this row: it can't be left out as one bad line.
            Ok(true) if self.reader.get_ref().is_left_open() => {
                self.ended = true;
                let line = self.record.position().map_or(1, csv::Position::line);
                Some(Err(BadLine::unreadable(
                    line,
                    &"a quote is opened in this row and never closed; is the file cut off?",
                )))
            }
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => {
                let line = error.position().map_or(self.reader.position().line(), csv::Position::line);
                self.ended = true;
                Some(Err(BadLine::unreadable(line, &error)))
            }
        }
    }

    fn event(&self, line: u64) -> Result<Line, BadLine> {
        let bad = |reason: String| BadLine::new(line, reason);
        if self.record.len() != self.names.len() {
            let (found, expected) = (self.record.len(), self.names.len());
            return Err(bad(format!("{found} fields, where {expected} are expected (is a quote left open?)")));
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let event = self.rules.event(&self.columns, &names, |index| self.record.get(index)).map_err(bad)?;
        Ok(Line { line, event })
    }
}

fn header(record: &ByteRecord) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::with_capacity(record.len());
    for (index, name) in record.iter().enumerate() {
        let name = std::str::from_utf8(name).map_err(|_| format!("the name of column {} is not UTF-8", index + 1))?;
        let name = name.trim().to_owned();
        if names.contains(&name) && !name.is_empty() {
            return Err(format!("two columns are called `{name}`"));
        }
        names.push(name);
    }
    Ok(names)
}

impl EventSource for CsvRows {
    fn next_event(&mut self) -> Option<Result<Line, BadLine>> {
        while !self.ended {
            if let Err(bad) = self.read()? {
                return Some(Err(bad));
            }
            let line = self.record.position().map_or(1, csv::Position::line);
            if line >= self.from_line {
                return Some(self.event(line));
            }
        }
        None
    }

    fn bytes_read(&self) -> u64 {
        self.reader.position().byte()
    }

    fn would_wait(&self) -> bool {
        false // always a file
    }
}
