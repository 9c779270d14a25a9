//! The cookie of a session, and what keeps other pages from acting by it (API-5).

use axum::http::{HeaderMap, HeaderValue, header};

use tidemill_model::CredentialKind;

use crate::Problem;
use crate::credential::Secret;
use crate::secret::is_equal;

/// What a page shows beside the cookie where it changes something.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// How long a sign-in at a provider may take.
const BEGUN_SECONDS: i64 = 600;

/// Whether cookies are sent on encrypted connections alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cookie {
    pub(crate) is_secure: bool,
}

impl Cookie {
    /// A browser takes a name with this prefix from the host itself alone, and encrypted.
    fn name(self) -> &'static str {
        if self.is_secure { "__Host-tidemill" } else { "tidemill" }
    }

    fn value<'h>(self, headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
        let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    /// The session of the request.
    pub(crate) fn session(self, headers: &HeaderMap) -> Option<Secret> {
        let value = self.value(headers, self.name())?;
        Secret::read(value).filter(|secret| secret.kind == CredentialKind::Session)
    }

    /// Sets it for so many seconds.
    pub(crate) fn set(self, session: &Secret, seconds: i64) -> HeaderValue {
        self.written(&session.text(), seconds)
    }

    /// Takes it away.
    pub(crate) fn cleared(self) -> HeaderValue {
        self.written("", 0)
    }

    /// Of a sign-in that was begun at a provider.
    fn name_of_begun(self) -> &'static str {
        if self.is_secure { "__Host-tidemill-begun" } else { "tidemill-begun" }
    }

    /// Keeps a sign-in that was begun, as long as it can be finished.
    pub(crate) fn begun(self, sealed: &str) -> HeaderValue {
        self.line(self.name_of_begun(), sealed, BEGUN_SECONDS)
    }

    /// The sign-in that was begun in this browser.
    pub(crate) fn was_begun(self, headers: &HeaderMap) -> Option<String> {
        self.value(headers, self.name_of_begun()).map(str::to_owned)
    }

    /// It is over.
    pub(crate) fn begun_no_more(self) -> HeaderValue {
        self.line(self.name_of_begun(), "", 0)
    }

    fn written(self, value: &str, seconds: i64) -> HeaderValue {
        self.line(self.name(), value, seconds)
    }

    fn line(self, name: &str, value: &str, seconds: i64) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let line = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
        HeaderValue::try_from(line).expect("it is made of letters, digits and signs of addresses")
    }
}

/// Refuses what a page of another site lets a browser send.
pub(crate) fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text("host").unwrap_or_default();
    let is_own_host = |origin: &str| origin.split_once("://").is_some_and(|(_, of)| of == host);
    let is_foreign = text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"))
        || text("origin").is_some_and(|origin| !is_own_host(origin));
    if is_foreign {
        return Err(Problem::forbidden("the request comes from a page of another site; nothing was done"));
    }
    Ok(())
}

/// Refuses who shows the cookie alone, which browsers send along whoever asks them to.
pub(crate) fn shows_csrf(headers: &HeaderMap, session: &Secret) -> Result<(), Problem> {
    let shown = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_equal(shown, &session.csrf()) {
        return Ok(());
    }
    let detail = "the header X-CSRF-Token is missing or wrong; send what GET /api/me says as csrf_token";
    Err(Problem::forbidden(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// API-5: a session is taken from the cookie of its name alone, and only as one.
    #[test]
    fn cookie_holds_a_session_or_nothing() {
        let session = Secret::draw(CredentialKind::Session);
        for is_secure in [true, false] {
            let cookie = Cookie { is_secure };
            let set = cookie.set(&session, 60);
            let set = set.to_str().unwrap();
            assert!(set.contains("; HttpOnly; SameSite=Lax; Max-Age=60"), "{set}");
            assert_eq!(set.ends_with("; Secure"), is_secure);
            let pair = set.split(';').next().unwrap();
            let sent = headers(&[("cookie", &format!("a=b; {pair}; c"))]);
            assert!(cookie.session(&sent) == Some(session.clone()));
            let other = Cookie { is_secure: !is_secure };
            assert!(other.session(&sent).is_none());
            let token = Secret::draw(CredentialKind::Token).text();
            assert!(cookie.session(&headers(&[("cookie", &format!("{}={token}", cookie.name()))])).is_none());
        }
    }

    /// API-5 (CSRF): what a page of another site lets a browser send is refused, whatever cookie comes along.
    #[test]
    fn requests_from_other_pages_are_refused() {
        let host = ("host", "tidemill.example:8780");
        for (more, is_fine) in [
            (vec![], true),
            (vec![("origin", "https://tidemill.example:8780")], true),
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "none")], true),
            (vec![("origin", "https://tidemill.example")], false),
            (vec![("origin", "https://evil.example")], false),
            (vec![("origin", "null")], false),
            (vec![("sec-fetch-site", "same-site")], false),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "https://tidemill.example:8780")], false),
        ] {
            let all: Vec<_> = std::iter::once(host).chain(more).collect();
            assert_eq!(same_origin(&headers(&all)).is_ok(), is_fine, "{all:?}");
        }
        let (session, other) = (Secret::draw(CredentialKind::Session), Secret::draw(CredentialKind::Session));
        assert!(shows_csrf(&headers(&[("x-csrf-token", &session.csrf())]), &session).is_ok());
        for wrong in
            [headers(&[]), headers(&[("x-csrf-token", &other.csrf())]), headers(&[("x-csrf-token", "")])]
        {
            assert!(shows_csrf(&wrong, &session).is_err());
        }
    }
}
