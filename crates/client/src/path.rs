//! Names in paths.

/// A name as one segment of a path, whatever letters it has.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_any_name() {
        assert_eq!(segment("load-1"), "load-1");
        assert_eq!(segment("报 a/b"), "%E6%8A%A5%20a%2Fb");
    }
}
