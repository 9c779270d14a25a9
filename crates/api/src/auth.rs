//! Who calls (API-5); what they may is in [`crate::rights`].

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use tidemill_directory::Key;
use tidemill_model::Role;

use crate::Problem;
use crate::app::App;
use crate::rights::Caller;
use crate::secret::{hash_of, is_equal};

/// A key's name is at most this long.
const MAX_NAME_BYTES: usize = 200;

/// The actor of those who show the operator's secret.
const OPERATOR: &str = "operator";

/// What a caller shows.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) app: String,
    pub(crate) secret: String,
}

impl Credentials {
    /// From `Authorization: Bearer <app>:<secret>`, or `X-App-Name` and `X-App-Key`.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(bearer) = text(header::AUTHORIZATION.as_str()) {
            let (app, secret) = bearer.strip_prefix("Bearer ")?.trim().split_once(':')?;
            return Some(Self { app: app.to_owned(), secret: secret.to_owned() });
        }
        Some(Self { app: text("x-app-name")?.to_owned(), secret: text("x-app-key")?.to_owned() })
    }
}

/// The person that a header names.
pub(crate) fn user_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let user = std::str::from_utf8(headers.get("x-user")?.as_bytes()).ok()?;
    Some(user.chars().take(200).collect::<String>().into()).filter(|user: &Arc<str>| !user.is_empty())
}

impl App {
    /// The operator, where the header shows the operator's secret: `Authorization: Bearer <operator_key>`.
    pub(crate) fn operator(&self, headers: &HeaderMap) -> Option<Caller> {
        let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        let secret = &self.config.operator_key;
        let fits = !secret.is_empty() && is_equal(&hash_of(shown), &hash_of(secret));
        let operator =
            || Caller::new(OPERATOR.into(), Role::SuperAdministrator, Arc::default(), Arc::default());
        fits.then(|| operator().for_user(user_of(headers)))
    }

    /// Who shows these credentials.
    pub(crate) async fn authenticate(
        &self,
        shown: Option<Credentials>,
        user: Option<Arc<str>>,
    ) -> Result<Caller, Problem> {
        let shown = shown.ok_or_else(Problem::unauthorized)?;
        if shown.app.is_empty() || shown.app.len() > MAX_NAME_BYTES {
            return Err(Problem::unauthorized());
        }
        self.caller_of(&shown.app, &hash_of(&shown.secret), user).await
    }

    /// Whose key has this name and this hash of its secret.
    pub(crate) async fn caller_of(
        &self,
        app: &str,
        hash: &str,
        user: Option<Arc<str>>,
    ) -> Result<Caller, Problem> {
        let fits = |key: &Arc<Key>| is_equal(&key.hash, hash);
        let key = match self.key(app).await?.filter(fits) {
            Some(key) => key,
            None => self.newest_key(app).await?.filter(fits).ok_or_else(Problem::unauthorized)?,
        };
        let (app, groups, accounts) =
            (Arc::clone(&key.app), Arc::clone(&key.groups), Arc::clone(&key.accounts));
        Ok(Caller::new(app, key.role, groups, accounts).for_user(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_may_contain_colons_and_spaces_are_no_part_of_it() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer app:se:cret ".parse().unwrap());
        let shown = Credentials::from_headers(&headers).unwrap();
        assert_eq!((shown.app.as_str(), shown.secret.as_str()), ("app", "se:cret"));
    }
}
