//! A piece of an output file: whole lines, a bounded number of bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use tidemill_model::whole_lines;

/// The most that one answer holds, bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) content: String,
    /// Where the next piece begins, in bytes of the file.
    pub(crate) offset: u64,
    /// Whether this reaches the end that the file has now.
    pub(crate) reaches_end: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) offset: u64,
    pub(crate) lines: usize,
    /// Whether nobody writes to it any more: then its last line counts, even without its end.
    pub(crate) is_final: bool,
}

/// Reads whole lines. A line that its writer has not ended is held back while it may grow; only one longer
/// than the bound is cut, between two characters. Bytes that are not UTF-8 are shown as such; offsets stay
/// those of the file.
pub(crate) fn read_lines(file: &mut File, wanted: Wanted) -> io::Result<Piece> {
    read_bounded(file, wanted, MAX_BYTES)
}

fn read_bounded(file: &mut File, wanted: Wanted, max_bytes: usize) -> io::Result<Piece> {
    let size = file.metadata()?.len();
    let offset = wanted.offset.min(size);
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(max_bytes as u64).read_to_end(&mut bytes)?;
    let at_end = offset + bytes.len() as u64 >= size;
    let taken = whole_lines(&bytes, wanted.lines, max_bytes, at_end && wanted.is_final);
    bytes.truncate(taken);
    let offset = offset + taken as u64;
    let content = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Piece { content, offset, reaches_end: offset >= size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn read(content: &[u8], offset: u64, lines: usize, is_final: bool) -> (String, u64, bool) {
        let piece = read_bounded(&mut file(content), Wanted { offset, lines, is_final }, 8).unwrap();
        (piece.content, piece.offset, piece.reaches_end)
    }

    /// LOG-2
    #[test]
    fn pieces_are_whole_lines_from_the_offset() {
        assert_eq!(read(b"a\nb\nc\n", 0, 2, true), ("a\nb\n".to_owned(), 4, false));
        assert_eq!(read(b"a\nb\nc\n", 4, 2, true), ("c\n".to_owned(), 6, true));
        assert_eq!(read(b"a\nb\nc\n", 9, 2, true), (String::new(), 6, true));
        assert_eq!(read(b"a\n", 0, 0, true), (String::new(), 0, false));
        assert_eq!(read(b"", 0, 9, true), (String::new(), 0, true));
    }

    #[test]
    fn unfinished_line_is_held_back_until_its_writer_is_gone() {
        assert_eq!(read(b"a\nb", 0, 9, false), ("a\n".to_owned(), 2, false));
        assert_eq!(read(b"a\nb", 0, 9, true), ("a\nb".to_owned(), 3, true));
        // The bound is reached inside the second line, which is not cut.
        assert_eq!(read(b"abc\ndefghi", 0, 9, true), ("abc\n".to_owned(), 4, false));
    }

    #[test]
    fn only_a_line_over_the_bound_is_cut_and_never_inside_a_character() {
        assert_eq!(read("aaaaaaa\u{e9}b\n".as_bytes(), 0, 9, false), ("aaaaaaa".to_owned(), 7, false));
        assert_eq!(read(b"0123456789", 0, 9, false), ("01234567".to_owned(), 8, false));
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_reader() {
        let (content, offset, reaches_end) = read(&[0xff, 0xfe, b'\n'], 0, 9, true);
        assert_eq!((content.as_str(), offset, reaches_end), ("\u{fffd}\u{fffd}\n", 3, true));
    }
}
