//! Query parameters and paths: each value is checked by what the call declares, and an unknown name is refused, so that
//! a misspelt filter never lists everything.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use tidemill_store::{Cursor, PageRequest};

use crate::parameter::{Asked, Parameter, Readable, Rule, read};
use crate::{JournalPosition, Problem};

/// Rows of a page where the caller names no number.
const DEFAULT_LIMIT: usize = 50;
/// Rows of a page at most.
pub(crate) const MAX_LIMIT: usize = 1_000;

/// How many rows a part of a list has at most.
pub(crate) const LIMIT: Asked<u64> =
    Asked::number("limit", "Rows of this part, 1 to 1000; default 50.", 1, MAX_LIMIT as u64);
/// Where a part of a list begins.
pub(crate) const CURSOR: Asked<String> = Asked::text("cursor", "The `next` of the part before.");
/// How fresh an answer has to be. Every call takes it.
pub(crate) const AT_LEAST: Asked<String> = Asked::new(
    "at_least",
    "A `position`; the answer waits until it shows that write.",
    Rule::of::<JournalPosition>(),
);

/// The query parameters of a request.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    values: Arc<BTreeMap<String, String>>,
    /// What the call declares, once that has been compared.
    declared: Option<Arc<[Parameter]>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let query = parts.uri.query().unwrap_or("");
        if !is_text(query) {
            return Err(Problem::field("query", query, "must be UTF-8 where it is percent-encoded"));
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| Problem::field("query", query, error.body_text()))?;
        let mut params = BTreeMap::new();
        for (name, value) in pairs {
            if params.contains_key(&name) {
                return Err(Problem::field(name, value, "is given twice; give it once"));
            }
            params.insert(name, value);
        }
        Ok(Self { values: Arc::new(params), declared: None })
    }
}

impl Params {
    /// These, for handlers of a call that declares such parameters.
    ///
    /// # Errors
    /// As [`Params::check`].
    pub(crate) fn of(self, declared: Arc<[Parameter]>) -> Result<Self, Problem> {
        self.check(&declared)?;
        Ok(Self { declared: Some(declared), ..self })
    }

    /// Refuses what the call does not declare, then values that do not keep to what it declares.
    pub(crate) fn check(&self, declared: &[Parameter]) -> Result<(), Problem> {
        // The wait for it is over, whatever the call.
        let everywhere = AT_LEAST.parameter.name;
        let given = || self.values.iter().filter(|(name, _)| *name != everywhere);
        if let Some((name, value)) = given().find(|(name, _)| declared.iter().all(|it| it.name != *name)) {
            let names = declared.iter().map(|it| it.name).filter(|name| *name != everywhere);
            let rule = match &names.collect::<Vec<_>>()[..] {
                [] => "is not a parameter of this call; it takes none".to_owned(),
                known => format!("is not a parameter of this call; it takes {}", known.join(", ")),
            };
            return Err(Problem::field(name, value, rule));
        }
        for (name, value) in given() {
            let parameter = declared.iter().find(|it| it.name == name);
            if let Some(Parameter { rule, fits, .. }) = parameter
                && !fits(*rule, value)
            {
                return Err(Problem::field(name, value, rule.must(name)));
            }
        }
        Ok(())
    }

    /// The value of a parameter that the call declares.
    pub(crate) fn get<T: Readable>(&self, Asked { parameter, .. }: Asked<T>) -> Result<Option<T>, Problem> {
        // A test that gets here finds a handler that reads another parameter than its call declares.
        debug_assert!(
            self.declared.as_ref().is_none_or(|declared| declared.iter().any(|it| it.is(&parameter))),
            "the call does not declare {}",
            parameter.name
        );
        let read = |text: &String| {
            let refused = || Problem::field(parameter.name, text, parameter.rule.must(parameter.name));
            T::read(parameter.rule, text).ok_or_else(refused)
        };
        self.values.get(parameter.name).map(read).transpose()
    }

    pub(crate) fn required<T: Readable>(&self, asked: Asked<T>) -> Result<T, Problem> {
        let Asked { parameter, .. } = asked;
        let rule = || format!("is missing; it {}", parameter.rule.must(parameter.name));
        self.get(asked)?.ok_or_else(|| Problem::field(parameter.name, "", rule()))
    }

    pub(crate) fn flag(&self, asked: Asked<bool>) -> Result<bool, Problem> {
        Ok(self.get(asked)?.unwrap_or(false))
    }

    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.get(LIMIT)?.map(usize::try_from);
        Ok(limit.transpose().unwrap_or_default().unwrap_or(DEFAULT_LIMIT))
    }

    pub(crate) fn page(&self) -> Result<PageRequest, Problem> {
        let after = self.get(CURSOR)?.map(|text| Cursor::parse(&text)).transpose()?;
        Ok(PageRequest { after, limit: self.limit()? })
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
