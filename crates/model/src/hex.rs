//! Bytes as hexadecimal digits: keys, signatures, hashes, and whatever is no text.

/// Two lower-case digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that these digits stand for; `None` where the text is anything else than two for each.
#[must_use]
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = Some(text.as_bytes()).filter(|digits| digits.len() == 2 * N)?;
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? * 16 + digit(pair[1])?;
    }
    Some(bytes)
}

/// A record for people: as it is where it is text, else in hexadecimal.
#[must_use]
pub fn text_or_hex(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| hex(bytes), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_read_back_and_other_text_does_not() {
        assert_eq!(from_hex(&hex(&[0, 0x1f, 0xff])), Some([0, 0x1f, 0xff]));
        assert_eq!(from_hex("aF"), Some([0xaf]));
        for text in ["", "a", "abc", "g0", "+1", "é"] {
            assert_eq!(from_hex::<1>(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_no_text_is_shown_in_digits() {
        assert_eq!(text_or_hex("a é".as_bytes()), "a é");
        assert_eq!(text_or_hex(&[0xff, b'a']), "ff61");
    }
}
