//! Who calls, and what they may (API-5).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use tidemill_model::{Actor, Role};
use tidemill_store::ReadTables;
use tidemill_store::rows::AppKeyRow;

use crate::Problem;
use crate::app::App;

/// A key's name is at most this long.
const MAX_NAME_BYTES: usize = 200;

/// The actor of those who show the cluster's secret.
const OPERATOR: &str = "operator";

/// Who calls: a key that is good.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) app: Arc<str>,
    pub(crate) role: Role,
    /// The groups that it is bound to; empty: all.
    pub(crate) groups: Arc<[String]>,
    /// The person, as the application names them.
    pub(crate) user: Option<Arc<str>>,
}

impl Caller {
    pub(crate) fn actor(&self) -> Actor {
        Actor { app: Arc::clone(&self.app), user: self.user.clone() }
    }

    /// Whether the key reaches the group at all.
    pub(crate) fn reaches(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|bound| bound == group)
    }

    pub(crate) fn may_read(&self, group: &str) -> Result<(), Problem> {
        if self.reaches(group) {
            return Ok(());
        }
        let bound = self.groups.join(", ");
        Err(Problem::forbidden(format!(
            "key {} is bound to {bound}; it does not reach group {group}",
            self.app
        )))
    }

    /// Whether the key may submit to the group and act on its jobs, batches and workers.
    pub(crate) fn may_act(&self, group: &str) -> Result<(), Problem> {
        self.has_role(Role::User)?;
        self.may_read(group)
    }

    pub(crate) fn has_role(&self, needed: Role) -> Result<(), Problem> {
        if self.role >= needed {
            return Ok(());
        }
        let (role, needed) = (role_name(self.role), role_name(needed));
        Err(Problem::forbidden(format!("key {} is a {role}; this needs a {needed}", self.app)))
    }

    /// The group that a list is about: as asked for, or the only one that the key reaches. `None`: all.
    pub(crate) fn listed_group(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (asked, &self.groups[..]) {
            (Some(group), _) => self.may_read(&group).map(|()| Some(group)),
            (None, []) => Ok(None),
            (None, [group]) => Ok(Some(group.clone())),
            (None, groups) => {
                let rule =
                    format!("must name one of the groups that this key is bound to: {}", groups.join(", "));
                Err(Problem::field("group", "", rule))
            }
        }
    }
}

pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::User => "user",
        Role::Administrator => "administrator",
        Role::SuperAdministrator => "super_administrator",
    }
}

fn role_named(name: &str) -> Option<Role> {
    let roles = [Role::Viewer, Role::User, Role::Administrator, Role::SuperAdministrator];
    roles.into_iter().find(|role| role_name(*role) == name)
}

/// SHA-256 of a secret, in hexadecimal.
pub(crate) fn hash_of(secret: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Of every request, so without a text for each byte.
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from(DIGITS[usize::from(half)]));
    Sha256::digest(secret.as_bytes()).iter().flat_map(digits).collect()
}

/// Compares without telling by its time where the first difference is.
pub(crate) fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

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

/// Keys that were good a moment ago.
pub(crate) struct Keys {
    trusted_for: Duration,
    kept: Mutex<HashMap<Arc<str>, (Instant, AppKeyRow)>>,
}

impl Keys {
    pub(crate) fn new(trusted_for: Duration) -> Self {
        Self { trusted_for, kept: Mutex::default() }
    }

    fn kept(&self, app: &str) -> Option<AppKeyRow> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, key) = kept.get(app)?;
        (read_at.elapsed() < self.trusted_for).then(|| key.clone())
    }

    fn keep(&self, key: &AppKeyRow) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (read_at, _)| read_at.elapsed() < self.trusted_for);
        kept.insert(key.app.clone(), (Instant::now(), key.clone()));
    }
}

impl App {
    /// The operator, where the header shows the cluster's secret: `Authorization: Bearer <internal_key>`.
    pub(crate) fn operator(&self, headers: &HeaderMap) -> Option<Caller> {
        let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        let secret = &self.config.internal_key;
        let fits = !secret.is_empty() && is_equal(&hash_of(shown), &hash_of(secret));
        fits.then(|| Caller {
            app: OPERATOR.into(),
            role: Role::SuperAdministrator,
            groups: Arc::default(),
            user: user_of(headers),
        })
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
        let hash = hash_of(&shown.secret);
        let fits = |key: &AppKeyRow| is_equal(&key.hash, &hash);
        let key = match self.keys.kept(&shown.app).filter(fits) {
            Some(key) => key,
            // Unknown, or changed a moment ago: the tables decide.
            None => {
                let app = shown.app;
                let key = self.read(move |tables| tables.app_key(&app)).await?;
                let key = key.filter(fits).ok_or_else(Problem::unauthorized)?;
                self.keys.keep(&key);
                key
            }
        };
        let role = role_named(&key.role);
        let groups = serde_json::from_str::<Vec<String>>(&key.group_names).ok();
        let (Some(role), Some(groups)) = (role, groups) else {
            tracing::error!(app = &*key.app, "the row of an application key has an unknown form");
            return Err(Problem::internal("the application key cannot be read"));
        };
        Ok(Caller { app: key.app, role, groups: groups.into(), user })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_other_hashes_are_told_apart() {
        assert!(is_equal(&hash_of("a"), &hash_of("a")));
        assert!(!is_equal(&hash_of("a"), &hash_of("b")));
        assert!(!is_equal(&hash_of("a"), ""));
    }

    #[test]
    fn hash_is_hexadecimal() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_of("abc"), hash);
    }

    #[test]
    fn secret_may_contain_colons_and_spaces_are_no_part_of_it() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer app:se:cret ".parse().unwrap());
        let shown = Credentials::from_headers(&headers).unwrap();
        assert_eq!((shown.app.as_str(), shown.secret.as_str()), ("app", "se:cret"));
    }
}
