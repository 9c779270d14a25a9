//! Where bytes of a log may be cut, so that people read whole lines.

/// How much of bytes that follow in a log is shown: at most so many lines. A line that its writer has not ended is held back while
/// it may grow; only one longer than `max_bytes` is cut, between two characters. `is_final`: these bytes are the last ones, and
/// nobody writes more.
#[must_use]
pub fn whole_lines(bytes: &[u8], lines: usize, max_bytes: usize, is_final: bool) -> usize {
    let Some(before) = lines.checked_sub(1) else { return 0 };
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    if let Some(end) = ends.nth(before) {
        return end;
    }
    if is_final {
        return bytes.len();
    }
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        None if bytes.len() >= max_bytes => whole_characters(bytes),
        None => 0,
    }
}

/// Without the beginning of a character whose rest comes later.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: whole lines, as many as wanted; the last one without its end where nothing will follow.
    #[test]
    fn lines_are_cut_at_their_ends() {
        assert_eq!(whole_lines(b"a\nb\nc\n", 2, 9, false), 4);
        assert_eq!(whole_lines(b"a\nb", 9, 9, false), 2);
        assert_eq!(whole_lines(b"a\nb", 9, 9, true), 3);
        assert_eq!(whole_lines(b"a\n", 0, 9, true), 0);
        assert_eq!(whole_lines(b"", 9, 9, true), 0);
    }

    /// LOG-2: a line over the bound is cut, and no character.
    #[test]
    fn long_line_is_cut_between_characters() {
        assert_eq!(whole_lines(b"01234567", 9, 8, false), 8);
        assert_eq!(whole_lines(b"0123456", 9, 8, false), 0);
        assert_eq!(whole_lines("aaaaaaa\u{e9}".as_bytes(), 9, 8, false), 9);
        assert_eq!(whole_lines(&"aaaaaaa\u{e9}".as_bytes()[..8], 9, 8, false), 7);
    }
}
