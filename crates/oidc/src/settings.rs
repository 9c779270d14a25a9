//! Which provider there is, and what its claims mean here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{DepartmentName, FieldError, Role};
use url::Url;

use crate::address::{is_plain, safe};

/// Where the provider sends the browser back to: the path of every `redirect_url`.
const REDIRECT_PATH: &str = "/api/sign-in/oidc/done";
/// Of addresses.
const ADDRESS_CHARS: usize = 500;
/// Of the client's id, of a claim's name or path, of a scope.
const NAME_CHARS: usize = 200;
/// Of the client's secret.
const SECRET_CHARS: usize = 1_000;
/// Of a claim's value in a table; names of groups in LDAP are long.
const VALUE_CHARS: usize = 500;
/// Of either table.
const ROWS: usize = 1_000;
/// How many there may be.
const SCOPES: usize = 32;

/// Sign-in of people through an OpenID Connect provider. Unknown fields are refused.
///
/// The name of a claim may be a path: `realm_access.roles` is the claim `roles` in the claim `realm_access`. A claim is a
/// text or a list of texts. A provider on another machine is asked through the proxy that the environment names
/// (`HTTPS_PROXY`, `NO_PROXY`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The provider's address, exactly as its discovery document says it: `https://…`, or `http://…` on this machine
    /// (`127.0.0.1`, `[::1]`, `localhost`); without `?` and `#`, at most 500 characters. The document is at
    /// `<issuer>/.well-known/openid-configuration`. Has no default.
    pub issuer: String,
    /// By which name the provider knows Tidemill: 1 to 200 visible ASCII characters. Has no default.
    pub client_id: String,
    /// The secret that belongs to it, 1 to 1,000 visible ASCII characters or spaces. Default none: the client is a public
    /// one, and PKCE alone protects its codes.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// Where the provider sends the browser back to, as it is registered there: an address of Tidemill's interface that
    /// ends in `/api/sign-in/oidc/done`, at most 500 characters. Has no default.
    pub redirect_url: String,
    /// What is asked for: 1 to 32 scopes, `openid` among them, each 1 to 200 visible ASCII characters without `"` and `\`.
    /// Default `openid`, `profile`, `email`, `groups`.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// The claim that is the person's name in the directory, 1 to 200 characters. It must be one that people cannot change
    /// by themselves at the provider, or one could sign in as another; an `email` that the provider calls not verified is
    /// refused. Default `preferred_username`.
    #[serde(default = "default_name_claim")]
    pub name_claim: String,
    /// The claim that is the person's mail address, 1 to 200 characters. Default `email`.
    #[serde(default = "default_mail_claim")]
    pub mail_claim: String,
    /// The claim that says the person's role, 1 to 200 characters; goes with `roles`. Default none: roles are those of the
    /// directory.
    #[serde(default)]
    pub role_claim: Option<String>,
    /// Which value of `role_claim` gives which role; at most 1,000 values of 1 to 500 characters. The highest role of
    /// those that a person has counts. Who has the claim and none of these values may not sign in.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
    /// The claim that says the person's departments, 1 to 200 characters; goes with `departments`. Default none:
    /// departments are those of the directory.
    #[serde(default)]
    pub department_claim: Option<String>,
    /// Which value of `department_claim` gives which department; at most 1,000 values of 1 to 500 characters. Who has the
    /// claim and none of these values is of no department.
    #[serde(default)]
    pub departments: BTreeMap<String, DepartmentName>,
    /// A file of certificates (PEM), one of which has to stand behind that of an `https` provider. Default: those that
    /// the machine trusts.
    #[serde(default)]
    pub ca_file: Option<String>,
}

fn default_scopes() -> Vec<String> {
    ["openid", "profile", "email", "groups"].map(str::to_owned).to_vec()
}

fn default_name_claim() -> String {
    "preferred_username".to_owned()
}

fn default_mail_claim() -> String {
    "email".to_owned()
}

/// The secret is not shown.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("redirect_url", &self.redirect_url)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is wrong, with its value, the rule and what to do.
    pub fn check(&self) -> Result<(), FieldError> {
        self.check_addresses()?;
        self.check_client()?;
        self.check_scopes()?;
        self.check_claims()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.issuer.starts_with("https://")
    }

    fn check_addresses(&self) -> Result<(), FieldError> {
        let is_short = |text: &str| text.chars().count() <= ADDRESS_CHARS;
        let issuer = safe(&self.issuer).filter(|url| url.query().is_none() && is_short(&self.issuer));
        if issuer.is_none() {
            let rule = "has to be https://HOST… of at most 500 characters without user, password, ? and # (http:// only \
                        on this machine); copy `issuer` from the provider's discovery document";
            return Err(FieldError::new("issuer", &self.issuer, rule));
        }
        let is_back = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && is_plain(url)
                && url.query().is_none()
                && url.path().ends_with(REDIRECT_PATH)
        };
        if !Url::parse(&self.redirect_url).is_ok_and(|url| is_back(&url) && is_short(&self.redirect_url)) {
            let rule = "has to be an address of this interface that ends in /api/sign-in/oidc/done, of at most 500 \
                        characters without ? and #; give the one that is registered at the provider";
            return Err(FieldError::new("redirect_url", &self.redirect_url, rule));
        }
        match &self.ca_file {
            Some(file) if file.is_empty() => Err(FieldError::new(
                "ca_file",
                file,
                "has to name a file; leave it out to trust whom the machine does",
            )),
            Some(file) if !self.is_encrypted() => {
                let rule = "goes with an issuer of https://; leave it out";
                Err(FieldError::new("ca_file", file, rule))
            }
            _ => Ok(()),
        }
    }

    fn check_client(&self) -> Result<(), FieldError> {
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=NAME_CHARS).contains(&self.client_id.len()) || !is_visible(&self.client_id) {
            let rule =
                "has to be 1 to 200 visible ASCII characters; give the name that the provider registered";
            return Err(FieldError::new("client_id", &self.client_id, rule));
        }
        let fits = |secret: &String| {
            (1..=SECRET_CHARS).contains(&secret.len())
                && secret.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        };
        match &self.client_secret {
            Some(secret) if !fits(secret) => {
                let rule = "has to be 1 to 1,000 visible ASCII characters or spaces; leave it out for a public client";
                Err(FieldError::new("client_secret", "…", rule))
            }
            _ => Ok(()),
        }
    }

    fn check_scopes(&self) -> Result<(), FieldError> {
        // RFC 6749, section 3.3.
        let fits = |scope: &String| {
            (1..=NAME_CHARS).contains(&scope.len())
                && scope.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
        };
        if let Some(scope) = self.scopes.iter().find(|scope| !fits(scope)) {
            let rule = "has to be 1 to 200 visible ASCII characters without \" and \\; give each scope an entry of its own";
            return Err(FieldError::new("scopes", scope, rule));
        }
        if self.scopes.len() > SCOPES || !self.scopes.iter().any(|scope| scope == "openid") {
            let rule = "has to be 1 to 32 scopes, openid among them; without it there is no ID token";
            return Err(FieldError::new("scopes", self.scopes.join(" "), rule));
        }
        Ok(())
    }

    fn check_claims(&self) -> Result<(), FieldError> {
        check_claim("name_claim", &self.name_claim)?;
        check_claim("mail_claim", &self.mail_claim)?;
        check_table(("role_claim", &self.role_claim), "roles", self.roles.keys())?;
        check_table(("department_claim", &self.department_claim), "departments", self.departments.keys())
    }
}

fn check_claim(field: &str, claim: &str) -> Result<(), FieldError> {
    let is_path = claim.split('.').all(|part| !part.is_empty());
    if !is_path || claim.chars().count() > NAME_CHARS || claim.chars().any(char::is_control) {
        let rule = "has to be the name of a claim of 1 to 200 characters, or a path as in realm_access.roles";
        return Err(FieldError::new(field, claim, rule));
    }
    Ok(())
}

/// A claim and its table go together: without the other, either means nothing, or that nobody may sign in.
fn check_table<'a>(
    (field, claim): (&str, &Option<String>),
    table: &str,
    values: impl ExactSizeIterator<Item = &'a String>,
) -> Result<(), FieldError> {
    match claim {
        Some(claim) => {
            check_claim(field, claim)?;
            if values.len() == 0 {
                let rule =
                    format!("needs {table}, which says what its values mean; give some, or leave it out");
                return Err(FieldError::new(field, claim, rule));
            }
        }
        None if values.len() > 0 => {
            let rule = format!("needs {field}, whose values these are; name the claim, or leave them out");
            return Err(FieldError::new(table, format!("{} values", values.len()), rule));
        }
        None => return Ok(()),
    }
    if values.len() > ROWS {
        return Err(FieldError::new(
            table,
            format!("{} values", values.len()),
            "has to be at most 1,000 values",
        ));
    }
    for value in values {
        if !(1..=VALUE_CHARS).contains(&value.chars().count()) {
            return Err(FieldError::new(table, value, "has to be 1 to 500 characters; shorten this value"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
