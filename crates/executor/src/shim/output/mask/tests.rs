//! What is left of a stream in which secrets are hidden, however it is cut.

use std::ops::Range;

use super::*;

/// A small generator: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    /// Of few letters, so that much of it repeats.
    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| ['a', 'b', 'c', '\n'][self.below(4)]).collect()
    }
}

fn secrets(of: &[&str]) -> Option<Arc<Secrets>> {
    Secrets::of(&of.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn masked(secrets: &Option<Arc<Secrets>>, pieces: &[&[u8]]) -> Vec<u8> {
    let mut mask = Mask::new(secrets.clone());
    let mut all: Vec<u8> = pieces.iter().flat_map(|piece| mask.take(piece).into_owned()).collect();
    all.extend(mask.end());
    let taken: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(mask.hidden(), (taken - all.len()) as u64);
    all
}

fn shown(of: &[&str], text: &str) -> String {
    String::from_utf8(masked(&secrets(of), &[text.as_bytes()])).unwrap()
}

fn occurrences<'a>(pattern: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let begins = (0..text.len()).filter(|at| text[*at..].starts_with(pattern));
    begins.map(|at| at..at + pattern.len())
}

/// The longest end of the text that a longer pattern begins with.
fn waiting(patterns: &[Vec<u8>], text: &[u8]) -> usize {
    let begins = |length: &usize| {
        let end = &text[text.len() - length..];
        patterns.iter().any(|pattern| pattern.len() > *length && pattern.starts_with(end))
    };
    (0..=text.len()).rev().find(begins).unwrap_or(0)
}

/// The same, by looking at each place for each of them.
fn masked_at_once(given: &[String], text: &[u8]) -> Vec<u8> {
    let mut is_hidden = vec![false; text.len()];
    let lines = given.iter().flat_map(|secret| secret.split('\n')).filter(|line| line.len() >= MIN_BYTES);
    let plain: Vec<Vec<u8>> =
        given.iter().map(String::as_str).chain(lines).map(|of| of.as_bytes().to_vec()).collect();
    for pattern in &plain {
        occurrences(pattern, text).for_each(|range| is_hidden[range].fill(true));
    }
    let base64: Vec<Vec<u8>> =
        given.iter().flat_map(|secret| (0..3).flat_map(|before| forms(secret.as_bytes(), before))).collect();
    // Too many line ends end one run of letters.
    let mut runs: Vec<Vec<usize>> = vec![Vec::new()];
    let mut line_ends = 0;
    for (at, byte) in text.iter().enumerate() {
        line_ends = if *byte == b'\n' { line_ends + 1 } else { 0 };
        match line_ends {
            0 => runs.last_mut().unwrap().push(at),
            9 => runs.push(Vec::new()),
            _ => {}
        }
    }
    let mut hide = |run: &[usize], letters: &[u8], range: Range<usize>| {
        let is_short = |at: &usize| {
            *at > run[0] && text[*at] == b'\n' && {
                waiting(&base64, &letters[..run.partition_point(|letter| letter < at)]) < MIN_BYTES
            }
        };
        let begin =
            (run[range.start]..run[range.end - 1]).rev().find(is_short).map_or(run[range.start], |at| at + 1);
        is_hidden[begin..=run[range.end - 1]].fill(true);
    };
    for run in runs.iter().filter(|run| !run.is_empty()) {
        let letters: Vec<u8> = run.iter().map(|at| text[*at]).collect();
        for range in base64.iter().flat_map(|pattern| occurrences(pattern, &letters)) {
            hide(run, &letters, range);
        }
    }
    let last = runs.last().unwrap();
    let letters: Vec<u8> = last.iter().map(|at| text[*at]).collect();
    let waits = waiting(&base64, &letters);
    if waits >= MIN_BYTES {
        hide(last, &letters, letters.len() - waits..letters.len());
    }
    let waits = waiting(&plain, text);
    if waits >= MIN_BYTES {
        is_hidden[text.len() - waits..].fill(true);
    }
    let mut all = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match is_hidden[at] {
            false => all.push(*byte),
            true if at > 0 && is_hidden[at - 1] => {}
            true => all.extend(STARS),
        }
    }
    all
}

/// BYD-15: a secret is hidden as it was given, by its lines, and in base64 of both alphabets, wherever it stands in that.
#[test]
fn secret_is_hidden_in_every_form() {
    assert_eq!(shown(&["hunter22"], "user hunter22, pass=hunter22\n"), "user ***, pass=***\n");
    assert_eq!(shown(&["hunter22"], "hunter2 hunte"), "hunter2 hunte");
    let key = "-----BEGIN-----\r\nfirst line\nxyz\nlast line\n";
    assert_eq!(shown(&[key], &format!("[{key}]")), "[***\n]");
    assert_eq!(shown(&[key], "a last line first line\nxyz\n-----BEGIN-----"), "a *** ***\nxyz\n***");
    // The longest counts, and what overlaps is hidden as a whole.
    assert_eq!(shown(&["abcdef", "abcdefgh"], "abcdefgh abcdefg-"), "*** ***g-");
    assert_eq!(shown(&["abcdef", "defghi"], "-abcdefghi-"), "-***-");
    assert_eq!(shown(&["aaaaaa"], "baaaaaaaab"), "b***b");
    let secret = "p\u{e4}ss?>w\u{f6}rd~~";
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{secret}{after}");
            let engines =
                [&STANDARD, &base64::engine::general_purpose::URL_SAFE].map(|engine| engine.encode(&text));
            let all = engines.iter().flat_map(|whole| [whole.as_str(), whole.trim_end_matches('=')]);
            for encoded in all {
                let shown = shown(&[secret], encoded);
                let (begin, end) = shown.split_once("***").unwrap_or_else(|| panic!("{text}: {shown}"));
                // A character at each end may hold bits of what stands beside it.
                assert!(begin.len() <= (before.len() * 8).div_ceil(6), "{text}: {shown}");
                assert!(
                    end.len() <= (after.len() * 8).div_ceil(6) + 3 && (end.is_empty() || !after.is_empty())
                );
            }
        }
    }
}

/// BYD-15: base64 is hidden however it is cut into lines, whatever stands before and behind the secret in it, and also where a command
/// has put a line end behind the secret.
#[test]
fn base64_that_is_cut_into_lines_is_hidden() {
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    for length in [41, 100, 300] {
        let secret: String = (0..length).map(|_| char::from(b'!' + numbers.below(90) as u8)).collect();
        let given = format!("{secret}\n");
        for (before, after) in
            [("", ""), ("", "\n"), ("u", ""), ("us", "\n"), ("use", " and more"), ("user:", "!")]
        {
            for (width, end) in [(64, "\n"), (76, "\n"), (76, "\r\n"), (7, "\n")] {
                let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
                let lines: Vec<_> = encoded.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
                let text = format!("{}{end}", lines.join(end));
                let shown = shown(&[&given], &text);
                let (begin, rest) = shown.split_once("***").unwrap_or_else(|| panic!("{shown}"));
                assert!(!rest.contains("***"), "{width}: {shown}");
                let letters = |text: &str| text.chars().filter(|of| !matches!(of, '\r' | '\n')).count();
                // So few letters at the end of a line do not wait for the next one.
                let few = if width < 8 { MIN_BYTES } else { 0 };
                assert!(letters(begin) <= (before.len() * 8).div_ceil(6) + few, "{width}: {shown}");
                assert!(letters(rest) <= (after.len() * 8).div_ceil(6) + 3, "{width}: {shown}");
            }
        }
    }
    // A line end behind which a secret could go on does not hold its line for a letter or two.
    let mut mask = Mask::new(secrets(&["secret-1"]));
    assert_eq!(&*mask.take(b"it prints a c2V\n"), b"it prints a c2V\n");
    assert_eq!(&*mask.take(b"it prints a c2VjcmV0\n"), b"it prints a ");
    assert_eq!(&*mask.take(b"\n\n\n\n\n\n\n"), b"");
    assert_eq!(&*mask.take(b"\n"), b"c2VjcmV0\n\n\n\n\n\n\n\n\n");
    assert_eq!(&*mask.take(b"c2VjcmV0\nLT"), b"");
    assert_eq!(&*mask.take(b"E=\n"), b"***\n");
}

/// BYD-15: where a stream is cut, and at its end, enough of a secret is hidden like a whole one.
#[test]
fn most_of_a_secret_is_hidden_where_the_stream_is_cut() {
    let secret = "0123456789".repeat(10);
    assert_eq!(shown(&[&secret], &format!("it is {}", &secret[..99])), "it is ***");
    assert_eq!(shown(&[&secret], &format!("it is {}", &secret[..6])), "it is ***");
    assert_eq!(shown(&[&secret], &format!("it is {}", &secret[..5])), "it is 01234");
    let encoded = STANDARD.encode(&secret);
    assert_eq!(shown(&[&secret], &format!("it is {}\n{}", &encoded[..64], &encoded[64..70])), "it is ***");
    let mut mask = Mask::new(secrets(&[&secret]));
    assert_eq!(
        (&*mask.take(&secret.as_bytes()[..99]), &*mask.end(), &*mask.take(b"-")),
        (&b""[..], STARS, &b"-"[..])
    );
}

/// BYD-15: what a job prints costs the same for each byte, whatever that is.
#[test]
fn secret_of_one_letter_costs_no_more_than_others() {
    let secrets = secrets(&[&"a".repeat(MAX_BYTES)]);
    let mut mask = Mask::new(secrets);
    let begun = std::time::Instant::now();
    let text = vec![b'a'; MAX_BYTES];
    for _ in 0..64 {
        assert!(mask.take(&text).len() <= STARS.len());
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// BYD-15: only what could be the beginning of a secret waits: no line that is complete, unless a secret goes on in the next.
#[test]
fn only_the_beginning_of_a_secret_waits() {
    let mut mask = Mask::new(secrets(&["secret-1", "two\nlines"]));
    assert_eq!(&*mask.take(b"a line of sec\n"), b"a line of sec\n");
    assert_eq!(&*mask.take(b"no newline, s"), b"no newline, ");
    assert_eq!(&*mask.take(b"ecret-"), b"");
    assert_eq!(&*mask.take(b"1!"), b"***!");
    assert_eq!(&*mask.take(b"two\n"), b"");
    assert_eq!(&*mask.take(b"three"), b"two\nthree");
    assert_eq!(&*mask.take(b" secret"), b" ");
    assert_eq!(mask.end(), STARS);
    // What comes behind a gap is hidden anew.
    assert_eq!(
        (&*mask.take(b"secret-1"), &*mask.end(), &*mask.take(b"secret-1")),
        (&b"***"[..], &b""[..], &b"***"[..])
    );
    assert_eq!(&*Mask::new(None).take(b"secret-1"), b"secret-1");
}

/// BYD-15: whatever is printed, hidden and cut: what comes out is what comes out of the whole at once, and holds no secret.
#[test]
fn no_cut_of_a_stream_shows_a_secret() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut hits = 0;
    for _ in 0..600 {
        let count = 1 + numbers.below(4);
        let given: Vec<String> = (0..count)
            .map(|_| {
                let length = MIN_BYTES + numbers.below(14);
                format!("{}c", numbers.text(length - 1))
            })
            .collect();
        let secrets = Secrets::of(&given).unwrap();
        let mut text = String::new();
        while text.len() < 200 {
            let piece = match numbers.below(4) {
                0 => given[numbers.below(given.len())].clone(),
                1 => {
                    let before = numbers.below(4);
                    let encoded = STANDARD.encode(format!("{}{}", &"abc"[..before], given[0]));
                    let width = 3 + numbers.below(20);
                    let lines = encoded.as_bytes().chunks(width).map(String::from_utf8_lossy);
                    lines.collect::<Vec<_>>().join("\n")
                }
                _ => {
                    let length = numbers.below(20);
                    numbers.text(length)
                }
            };
            text.push_str(&piece);
        }
        let mut pieces = Vec::new();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(rest.len().min(numbers.below(30)));
            pieces.push(piece);
            rest = left;
        }
        let shown = masked(&secrets, &pieces);
        assert_eq!(shown, masked_at_once(&given, text.as_bytes()), "{given:?}: {text:?}");
        let text = String::from_utf8(shown).unwrap();
        for secret in &given {
            assert!(!text.contains(secret.as_str()), "{secret:?}: {text:?}");
            assert!(!text.contains(STANDARD.encode(secret).trim_end_matches('=')), "{secret:?}: {text:?}");
        }
        hits += text.matches("***").count();
    }
    assert!(hits > 2_000, "{hits}");
}

/// BYD-15: secrets that cannot be hidden are refused, and not shown.
#[test]
fn secrets_that_cannot_be_hidden_are_refused() {
    let refused = |secrets: Vec<String>| Secrets::of(&secrets).err().unwrap();
    assert_eq!(
        refused(vec!["long enough".to_owned(), "short".to_owned()]),
        "a secret to be masked is of 5 bytes; 6 to 65536 are allowed"
    );
    assert!(refused(vec!["x".repeat(MAX_BYTES + 1)]).contains("65537 bytes"));
    assert!(refused(vec!["short\r\n".to_owned()]).contains("of 5 bytes"));
    assert!(refused(vec!["secret".to_owned(); 65]).contains("65 secrets"));
    assert_eq!(
        refused(vec!["x".repeat(MAX_BYTES - 5), "secret".to_owned()]),
        "the secrets to be masked are of 65537 bytes together; at most 65536 are allowed"
    );
    assert!(Secrets::of(&[]).unwrap().is_none());
    assert!(Secrets::of(&vec!["x".repeat(MAX_BYTES / MAX_SECRETS); MAX_SECRETS]).is_ok());
}
