//! One provider: a sign-in is begun, and finished.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::claims::{Claims, Said};
use crate::discovery::Discovery;
use crate::http::Http;
use crate::id_token::{Expected, Header, verify};
use crate::kept::Kept;
use crate::keys::{Found, Keys};
use crate::token::{Tokens, exchange};
use crate::{Begun, Error, Fault, Pending, Refusal, Settings, SignedIn, user_info};

/// An OpenID Connect provider. What it publishes is fetched when it is needed first, and kept for an hour; its keys are
/// fetched again when it signs with one that is not among them, once a minute at most.
pub struct Provider {
    settings: Settings,
    http: Http,
    discovery: Kept<Discovery>,
    keys: Kept<Keys>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Provider {
    /// The provider of these settings. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Misconfigured`]: a setting breaks its rule, or the file of certificates is of no use.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check().map_err(Fault::from)?;
        let http = Http::new(&settings)?;
        Ok(Self { settings, http, discovery: Kept::new(), keys: Kept::new() })
    }

    /// Begins a sign-in.
    ///
    /// # Errors
    /// [`Error::Away`] or [`Error::Misconfigured`], where the discovery document cannot be used.
    pub async fn begin(&self, now: Timestamp) -> Result<Begun, Error> {
        let discovery = self.discovery().await?;
        let pending = Pending::begin(now);
        let mut url = discovery.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.redirect_url)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", pending.state())
            .append_pair("nonce", pending.nonce())
            .append_pair("code_challenge", &pending.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(Begun { url: url.into(), pending })
    }

    /// Finishes a sign-in, with what the browser came back with.
    ///
    /// # Errors
    /// [`Error::Refused`]: the answer, the code or the token is not this sign-in's, or says no name; [`Error::Away`] and
    /// [`Error::Misconfigured`] as the provider answers.
    pub async fn finish(
        &self,
        pending: &Pending,
        code: &str,
        state: &str,
        now: Timestamp,
    ) -> Result<SignedIn, Error> {
        pending.check(state, now)?;
        let discovery = self.discovery().await?;
        let tokens = exchange(&self.http, &self.settings, &discovery, pending, code).await?;
        let expected = Expected {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: pending.nonce(),
            now,
        };
        let (subject, id_token) = self.verified(&discovery, &tokens.id_token, &expected).await?;
        let said = self.complete(&discovery, &tokens, &subject, id_token).await?;
        Ok(SignedIn::derive(&self.settings, subject, &said)?)
    }

    async fn discovery(&self) -> Result<Arc<Discovery>, Error> {
        if let Some(discovery) = self.discovery.get(Instant::now()) {
            return Ok(discovery);
        }
        let discovery = Discovery::fetch(&self.http, &self.settings).await?;
        Ok(self.discovery.put(discovery, Instant::now()))
    }

    async fn verified(
        &self,
        discovery: &Discovery,
        token: &str,
        expected: &Expected<'_>,
    ) -> Result<(String, Claims), Error> {
        let Header { signs, kid } = Header::of(token)?;
        let mut keys = match self.keys.get(Instant::now()) {
            Some(keys) => keys,
            None => self.fetch_keys(discovery).await?,
        };
        if matches!(keys.find(&kid, signs), Found::Nothing) && self.keys.may_ask_again(Instant::now()) {
            keys = self.fetch_keys(discovery).await?;
        }
        match keys.find(&kid, signs) {
            Found::Key(key) => Ok(verify(token, signs, key, expected)?),
            Found::OfAnotherType => Err(Refusal::KeyType { alg: signs.name(), kid }.into()),
            Found::Nothing => Err(Refusal::UnknownKey { kid }.into()),
        }
    }

    async fn fetch_keys(&self, discovery: &Discovery) -> Result<Arc<Keys>, Error> {
        let keys = Keys::fetch(&self.http, &discovery.keys).await?;
        Ok(self.keys.put(keys, Instant::now()))
    }

    /// With userinfo, where the ID token lacks a claim that counts.
    async fn complete(
        &self,
        discovery: &Discovery,
        tokens: &Tokens,
        subject: &str,
        id_token: Claims,
    ) -> Result<Said, Error> {
        let mut said = Said { id_token, user_info: None };
        let claims = [Some(&self.settings.name_claim), Some(&self.settings.mail_claim)];
        let more = [self.settings.role_claim.as_ref(), self.settings.department_claim.as_ref()];
        let lacks = claims.into_iter().chain(more).flatten().any(|claim| said.value(claim).is_none());
        if let Some(url) = discovery.user_info.as_ref().filter(|_| lacks) {
            said.user_info = Some(user_info::fetch(&self.http, url, &tokens.access_token, subject).await?);
        }
        Ok(said)
    }
}
