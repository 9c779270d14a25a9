//! Query parameters and paths: each value is checked by name, and an unknown name is refused, so that a
//! misspelt filter never lists everything.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use jiff::Timestamp;
use tidemill_store::{Cursor, PageRequest};

use crate::Problem;

/// Rows of a page where the caller names no number.
const DEFAULT_LIMIT: usize = 50;
/// Rows of a page at most.
const MAX_LIMIT: usize = 1_000;

/// The query parameters of a request.
#[derive(Debug)]
pub(crate) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
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

    pub(crate) fn parse<T: FromStr>(&self, name: &str, rule: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &String| text.parse().map_err(|_| Problem::field(name, text, rule));
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

/// An id from a path or a body.
pub(crate) fn id<T: FromStr>(what: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::field(what, text, format!("must be the number of a {what}")))
}
