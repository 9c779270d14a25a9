//! Ranges of logs as anybody may ask for them.

use std::io::Write;

use axum::extract::Query;
use axum::http::Uri;
use tidemill_corpus::corpus;

use super::read::{MAX_BYTES, Wanted, read_lines};
use super::server::Asked;

/// LOG-2: a range is refused, or gives a bounded piece whose end is where the next one begins.
#[test]
fn any_range_is_refused_or_gives_a_bounded_piece() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all("one\ntwo\n\nf\u{fc}nf\r\n\u{1f600}\n".as_bytes()).unwrap();
    file.write_all(&[0xff, 0xfe, b'\n', 0xf0, 0x9f]).unwrap();
    file.write_all(&vec![b'x'; MAX_BYTES + 10]).unwrap();
    let size = file.metadata().unwrap().len();
    corpus!("range").fuzz(300, |input| {
        let query = String::from_utf8_lossy(input);
        let Ok(uri) = format!("/logs/1?{query}").parse::<Uri>() else { return };
        let Ok(Query(asked)) = Query::<Asked>::try_from_uri(&uri) else { return };
        for is_final in [false, true] {
            let wanted = Wanted { offset: asked.offset, lines: asked.lines, is_final };
            let piece = read_lines(&mut file.try_clone().unwrap(), wanted).unwrap();
            // A byte that is no text becomes three.
            assert!(piece.content.len() <= 3 * MAX_BYTES, "{}", piece.content.len());
            assert!(piece.offset >= asked.offset.min(size) && piece.offset <= size, "{query}");
            assert!(piece.content.lines().count() <= asked.lines, "{query}");
            assert_eq!(piece.reaches_end, piece.offset == size);
        }
    });
}
