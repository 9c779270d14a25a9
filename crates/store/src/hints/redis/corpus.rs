//! What a Redis may hold that others write to as well.

use tidemill_corpus::corpus;

use super::{hint_of, look_of, place_in, text_of};

/// A hint is none, or survives its text; a mark that cannot be read makes the whole look one that cannot.
#[test]
fn hints_and_places_are_none_or_kept() {
    corpus!("hint").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        if let Some(hint) = hint_of(&text) {
            assert_eq!(hint_of(&text_of(&hint)), Some(hint));
        }
        if let Some(place) = place_in(3, &text) {
            let again = format!("{}:{}", place.shard, place.user);
            assert_eq!(place_in(3, &again), Some(place));
        }
        let words: Vec<_> = text.split('\n').map(|word| Some(word.to_owned())).collect();
        if let Some(look) = look_of(&words) {
            assert!(words.len() == 4 && look.group_mark.is_some() && look.user_mark.is_some());
        }
    });
}
