//! Userinfo: claims that the ID token lacks (OpenID Connect Core, section 5.3).

use serde_json::Value;
use url::Url;

use crate::claims::Claims;
use crate::http::{Http, send};
use crate::{Asked, Error, Refusal};

/// What the provider says of the person whom the access token is of. It has to be the subject: a token that was put in
/// place of another would have another person's claims counted (section 5.3.2).
pub(crate) async fn fetch(
    http: &Http,
    url: &Url,
    access_token: &str,
    subject: &str,
) -> Result<Claims, Error> {
    let answer = send(Asked::UserInfo, http.get(url).bearer_auth(access_token)).await?;
    let claims: Claims = answer.good()?;
    if claims.get("sub").and_then(Value::as_str) != Some(subject) {
        return Err(Refusal::Subject.into());
    }
    Ok(claims)
}
