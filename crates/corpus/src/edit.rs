//! One change to an input.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;

use crate::json;

/// Inputs never grow beyond this, so that edits that double add up to something bounded.
const MAX_BYTES: usize = 1 << 20;

/// Numbers at which something changes: signs, widths of integers, the ends of time, floats.
pub(crate) const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "12",
    "13",
    "31",
    "32",
    "59",
    "60",
    "61",
    "99",
    "100",
    "127",
    "128",
    "255",
    "256",
    "1000",
    "1001",
    "4095",
    "4096",
    "4097",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "253402300799",
    "-377705023201",
    "1.5",
    "1e9",
    "1e308",
    "-0.0",
    "1e-9",
];

/// Texts that mean something to some decoder.
pub(crate) const WORDS: &[&str] = &[
    "",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{7f}",
    "\u{feff}",
    "é",
    "\u{1f600}",
    "\u{202e}",
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "#",
    "&a ",
    "*a",
    "<<: ",
    "!!",
    "---\n",
    "%00",
    "%",
    "..",
    "/",
    "*",
    "?",
    "L",
    "W",
    "-",
    "+",
    "$",
    "${",
    "}}",
    "1970-01-01T00:00:00Z",
    "9999-12-30T22:00:00.999999999Z",
    "-009999-01-02T01:59:59Z",
    "2026-03-29T02:30:00+01:00",
    "UTC",
    "Europe/Berlin",
    "Pacific/Apia",
    "P1D",
    "NaN",
    "inf",
];

/// One change to an input. Every one of them can be made to any input.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Cut(Index),
    /// Doubles a piece so many times.
    Repeat(Index, usize, usize),
    /// Puts in a word.
    Word(Index, Index),
    /// Puts a number in the place of one.
    Number(Index, Index),
    /// Puts one token in the place of another of the same input.
    Token(Index, Index),
    /// Puts in a piece of another input.
    Splice(Index, Index, Index, usize),
    /// Changes a value of a JSON document.
    Json(json::Change),
}

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        1 => (at(), 0_u8..8).prop_map(|(place, bit)| Edit::Flip(place, bit)),
        1 => (at(), any::<u8>()).prop_map(|(place, byte)| Edit::Set(place, byte)),
        1 => (at(), vec(any::<u8>(), 1..8)).prop_map(|(place, bytes)| Edit::Insert(place, bytes)),
        2 => (at(), 1_usize..24).prop_map(|(place, count)| Edit::Remove(place, count)),
        1 => at().prop_map(Edit::Cut),
        1 => (at(), 1_usize..40, prop_oneof![8 => 1_usize..4, 1 => Just(2_000)])
            .prop_map(|(place, count, times)| Edit::Repeat(place, count, times)),
        3 => (at(), at()).prop_map(|(place, word)| Edit::Word(place, word)),
        4 => (at(), at()).prop_map(|(place, number)| Edit::Number(place, number)),
        4 => (at(), at()).prop_map(|(place, other)| Edit::Token(place, other)),
        2 => (at(), at(), at(), 1_usize..200)
            .prop_map(|(place, other, from, count)| Edit::Splice(place, other, from, count)),
        12 => json::change().prop_map(Edit::Json),
    ]
}

/// Makes the change.
pub(crate) fn make(input: &mut Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) {
    // One place more than there are bytes: the end.
    let place = |index: &Index, input: &[u8]| index.index(input.len() + 1);
    match edit {
        Edit::Flip(index, bit) if !input.is_empty() => {
            let at = index.index(input.len());
            input[at] ^= 1 << bit;
        }
        Edit::Set(index, byte) if !input.is_empty() => {
            let at = index.index(input.len());
            input[at] = *byte;
        }
        Edit::Flip(..) | Edit::Set(..) => {}
        Edit::Insert(index, bytes) => put(input, place(index, input), 0, bytes),
        Edit::Remove(index, count) => put(input, place(index, input), *count, &[]),
        Edit::Cut(index) => input.truncate(place(index, input)),
        Edit::Repeat(index, count, times) => {
            let from = place(index, input);
            let piece = input[from..(from + count).min(input.len())].repeat(*times);
            put(input, from, 0, &piece);
        }
        Edit::Word(index, word) => put(input, place(index, input), 0, word.get(WORDS).as_bytes()),
        Edit::Number(index, number) => {
            let found = tokens(input, u8::is_ascii_digit);
            if let Some((from, count)) = chosen(index, &found) {
                put(input, from, count, number.get(NUMBERS).as_bytes());
            }
        }
        Edit::Token(index, other) => {
            let found = tokens(input, |byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(byte));
            if let (Some((from, count)), Some((of, length))) = (chosen(index, &found), chosen(other, &found))
            {
                let token = input[of..of + length].to_vec();
                put(input, from, count, &token);
            }
        }
        Edit::Splice(index, other, from, count) => {
            let other = other.get(seeds);
            let from = place(from, other);
            put(input, place(index, input), 0, &other[from..(from + count).min(other.len())]);
        }
        Edit::Json(change) => json::make(input, change),
    }
}

/// Replaces so many bytes by these.
fn put(input: &mut Vec<u8>, from: usize, count: usize, bytes: &[u8]) {
    let end = (from + count).min(input.len());
    if input.len() + bytes.len() <= MAX_BYTES {
        drop(input.splice(from..end, bytes.iter().copied()));
    }
}

/// Where runs of such bytes begin, and how long they are.
fn tokens(input: &[u8], is_part: impl Fn(&u8) -> bool) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, byte) in input.iter().enumerate() {
        match found.last_mut() {
            Some((from, count)) if is_part(byte) && *from + *count == at => *count += 1,
            _ if is_part(byte) => found.push((at, 1)),
            _ => {}
        }
    }
    found
}

fn chosen(index: &Index, found: &[(usize, usize)]) -> Option<(usize, usize)> {
    if found.is_empty() { None } else { Some(*index.get(found)) }
}
