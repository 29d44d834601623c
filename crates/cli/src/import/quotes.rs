//! Watches the bytes of a CSV file go by, and knows whether a quote was left open at its end. The parser takes the end of the file
//! for the end of the field: everything behind a forgotten quote would become one value, and nobody would be told.

use std::io::{self, Read};

const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file whose quotes are watched.
pub(crate) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    place: Place,
    /// How much of the mark that some editors put first has gone by.
    mark: usize,
    ended: bool,
}

/// Where in a row the last byte stood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first byte of a field.
    Beginning,
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two that mean one.
    Quote,
}

impl<R> Quotes<R> {
    pub(crate) fn new(inner: R, delimiter: u8) -> Self {
        Quotes { inner, delimiter, place: Place::Beginning, mark: 0, ended: false }
    }

    /// Whether everything has been read, and a quote is still open.
    pub(crate) fn is_left_open(&self) -> bool {
        self.ended && self.place == Place::Quoted
    }

    fn pass(&mut self, byte: u8) {
        if MARK.get(self.mark) == Some(&byte) {
            self.mark += 1;
            return;
        }
        self.mark = MARK.len();
        let ends = byte == self.delimiter || byte == b'\n' || byte == b'\r';
        self.place = match (self.place, byte) {
            (Place::Beginning | Place::Quote, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) => Place::Quoted,
            (_, _) if ends => Place::Beginning,
            (_, _) => Place::Plain,
        };
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        buffer[..bytes].iter().for_each(|byte| self.pass(*byte));
        self.ended = bytes == 0 && !buffer.is_empty();
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_left_open(text: &str) -> bool {
        let mut quotes = Quotes::new(text.as_bytes(), b',');
        io::copy(&mut quotes, &mut io::sink()).unwrap();
        quotes.is_left_open()
    }

    #[test]
    fn a_quote_is_open_only_where_the_parser_takes_it_for_one() {
        for closed in
            ["", "a,b\n", "\"a\",b", "\"a\nb\"\r\n", "\"a \"\"b\"\" c\"", "5\" screen,b\n", "\"a\"b\"c\n", "a\n\"\""]
        {
            assert!(!is_left_open(closed), "{closed:?}");
        }
        for open in ["\"", "a,\"b\nc,d\n", "\"a\"\"", "\u{feff}\"time", "\"a\"\n\"b,c"] {
            assert!(is_left_open(open), "{open:?}");
        }
    }
}
