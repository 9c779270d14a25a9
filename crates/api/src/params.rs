//! Query parameters and paths: each value is checked by name, and an unknown name is refused, so that a
//! misspelt filter never lists everything.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use tidemill_model::Timestamp;
use tidemill_store::{Cursor, PageRequest};

use crate::Problem;

/// Rows of a page where the caller names no number.
const DEFAULT_LIMIT: usize = 50;
/// Rows of a page at most.
pub(crate) const MAX_LIMIT: usize = 1_000;

/// The query parameters of a request.
#[derive(Debug)]
pub(crate) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or("");
        if !is_text(query) {
            return Err(Problem::field("query", query, "must be UTF-8 where it is percent-encoded"));
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| Problem::field("query", parts.uri.query().unwrap_or(""), error.body_text()))?;
        let mut params = BTreeMap::new();
        for (name, value) in pairs {
            if params.contains_key(&name) {
                return Err(Problem::field(name, value, "is given twice; give it once"));
            }
            params.insert(name, value);
        }
        Ok(Self(params))
    }
}

impl Params {
    /// Refuses every name but these and `at_least`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let unknown = self.0.iter().find(|(name, _)| *name != "at_least" && !known.contains(&name.as_str()));
        let Some((name, value)) = unknown else { return Ok(()) };
        let rule = match known {
            [] => "is not a parameter of this call; it takes none".to_owned(),
            known => format!("is not a parameter of this call; it takes {}", known.join(", ")),
        };
        Err(Problem::field(name, value, rule))
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// One of these words.
    pub(crate) fn word(&self, name: &str, known: &[&str]) -> Result<Option<String>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        if known.contains(&text.as_str()) {
            return Ok(Some(text));
        }
        Err(Problem::field(name, text, format!("must be one of {}", known.join(", "))))
    }

    pub(crate) fn parse<T: FromStr>(&self, name: &str, rule: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &String| read(text).ok_or_else(|| Problem::field(name, text, rule));
        self.0.get(name).map(parse).transpose()
    }

    pub(crate) fn required<T: FromStr>(&self, name: &str, rule: &str) -> Result<T, Problem> {
        self.parse(name, rule)?.ok_or_else(|| Problem::field(name, "", format!("is missing; it {rule}")))
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.parse(name, "must be a time as RFC 3339 has it, with its offset: 2025-03-01T00:00:00+01:00")
    }

    pub(crate) fn page(&self) -> Result<PageRequest, Problem> {
        let rule = "must be 1 to 1000";
        let limit = self.parse("limit", rule)?.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Problem::field("limit", limit, rule));
        }
        let after = self.0.get("cursor").map(|text| Cursor::parse(text)).transpose()?;
        Ok(PageRequest { after, limit })
    }
}

/// Whether what is percent-encoded stands for text. Where it does not, it would be read as other text.
pub(crate) fn is_text(encoded: &str) -> bool {
    let digit =
        |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let (bytes, mut decoded, mut at) = (encoded.as_bytes(), Vec::with_capacity(encoded.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))).filter(|_| *byte == b'%');
        decoded.push(pair.map_or(*byte, |(high, low)| high * 16 + low));
        at += if pair.is_some() { 3 } else { 1 };
    }
    std::str::from_utf8(&decoded).is_ok()
}

/// An id from a path or a body.
pub(crate) fn id<T: FromStr>(what: &str, text: &str) -> Result<T, Problem> {
    read(text).ok_or_else(|| Problem::field(what, text, format!("must be the number of a {what}")))
}

/// As the document has it: a number does not begin with a plus.
fn read<T: FromStr>(text: &str) -> Option<T> {
    Some(text).filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_bytes_have_to_be_text() {
        for text in ["", "a=1&b=%C3%BC", "%", "%zz", "100%", "%F0%9F%98%80"] {
            assert!(is_text(text), "{text}");
        }
        for text in ["%ff", "a=%C3", "a=%C3&b=%BC", "%F0%9F%98"] {
            assert!(!is_text(text), "{text}");
        }
    }
}
