//! What is left of a stream in which secrets are hidden, however it is cut.

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

/// The same, by looking at each place for each of them.
fn masked_at_once(patterns: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
    let mut is_hidden = vec![false; text.len()];
    for (at, _) in text.iter().enumerate() {
        for pattern in patterns.iter().filter(|pattern| text[at..].starts_with(pattern)) {
            is_hidden[at..at + pattern.len()].fill(true);
        }
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
    assert_eq!(shown(&["hunter22"], "hunter2 hunter"), "hunter2 hunter");
    let key = "-----BEGIN-----\r\nfirst line\nxyz\nlast line\n";
    assert_eq!(shown(&[key], &format!("[{key}]")), "[***]");
    assert_eq!(shown(&[key], "a last line first line\nxyz\n-----BEGIN-----"), "a *** ***\nxyz\n***");
    // The longest counts, and what overlaps is hidden as a whole.
    assert_eq!(shown(&["abcdef", "abcdefgh"], "abcdefgh abcdefg"), "*** ***g");
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
    let long = "0123456789".repeat(20);
    let encoded = STANDARD.encode(&long);
    for length in BASE64_LINES {
        let lines: Vec<_> = encoded.as_bytes().chunks(length).map(String::from_utf8_lossy).collect();
        assert_eq!(shown(&[&long], &lines.join("\n")), vec!["***"; lines.len()].join("\n"));
    }
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
    assert_eq!(mask.end(), b"secret");
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
    for _ in 0..3_000 {
        let count = 1 + numbers.below(4);
        let given: Vec<String> = (0..count)
            .map(|_| {
                let length = MIN_BYTES + numbers.below(14);
                numbers.text(length)
            })
            .collect();
        let secrets = Secrets::of(&given).unwrap();
        let of = secrets.as_ref().unwrap();
        let patterns: Vec<Vec<u8>> = (0..of.patterns.len()).map(|index| of.pattern(index).to_vec()).collect();
        let mut text = String::new();
        while text.len() < 200 {
            let piece = match numbers.below(4) {
                0 => given[numbers.below(given.len())].clone(),
                1 => {
                    let before = numbers.below(4);
                    STANDARD.encode(format!("{}{}", &"abc"[..before], given[0]))
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
        assert_eq!(shown, masked_at_once(&patterns, text.as_bytes()), "{given:?}: {text:?}");
        let text = String::from_utf8(shown).unwrap();
        for secret in &given {
            assert!(!text.contains(secret.as_str()), "{secret:?}: {text:?}");
            assert!(!text.contains(STANDARD.encode(secret).trim_end_matches('=')), "{secret:?}: {text:?}");
        }
        hits += text.matches("***").count();
    }
    assert!(hits > 10_000, "{hits}");
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
    assert!(refused(vec!["secret".to_owned(); 65]).contains("65 secrets"));
    assert!(Secrets::of(&[]).unwrap().is_none());
    assert!(Secrets::of(&vec!["x".repeat(MAX_BYTES); MAX_SECRETS]).is_ok());
}
