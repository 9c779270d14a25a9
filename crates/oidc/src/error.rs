//! What can fail: whether to try later, to sign in anew, or to change the settings.

use std::fmt;

use thiserror::Error;
use tidemill_model::{FieldError, NameError, bounds};

/// The error below.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why nobody has signed in.
#[derive(Debug, Error)]
pub enum Error {
    /// The provider does not answer, or says that it cannot at the moment. Trying again later may help.
    #[error("the provider cannot be asked for its {asked} at the moment; try again later")]
    Away {
        /// What it was asked for.
        asked: Asked,
        /// Why not.
        #[source]
        source: Cause,
    },
    /// This sign-in is not accepted. Nothing is wrong with the provider.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody can sign in until the settings, or the provider's, are changed.
    #[error(transparent)]
    Misconfigured(#[from] Fault),
}

/// What a provider is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The document that says where everything else is.
    Discovery,
    /// The keys that it signs with.
    Keys,
    /// Tokens, for a code.
    Tokens,
    /// Claims of a person.
    UserInfo,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovery => "discovery document",
            Self::Keys => "keys",
            Self::Tokens => "tokens",
            Self::UserInfo => "userinfo",
        })
    }
}

/// Why a sign-in is not accepted.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The state is not the one that was begun with: the answer is for another browser, or another attempt.
    #[error("this answer belongs to another sign-in; sign in again")]
    State,
    /// It took longer than ten minutes, or the clock was set back.
    #[error("this sign-in was begun more than 10 minutes ago; sign in again")]
    Old,
    /// The code is none.
    #[error("the code has to be 1 to 4,096 visible ASCII characters; sign in again")]
    CodeForm,
    /// The provider does not take the code: it was used, is not for this client, or is not this browser's.
    #[error("the provider refuses the code: {said}; sign in again")]
    Code {
        /// In its words.
        said: String,
    },
    /// The ID token cannot be read.
    #[error("the ID token cannot be read: {why}")]
    Token {
        /// Why not.
        why: String,
    },
    /// It is not signed, or by what is never accepted.
    #[error("the ID token is signed by {alg:?}; it has to be RS256, ES256 or EdDSA")]
    Algorithm {
        /// What its header says.
        alg: String,
    },
    /// It names a key that the provider does not have.
    #[error("the ID token is signed with key {kid:?}, which the provider does not publish")]
    UnknownKey {
        /// Which; empty where it names none.
        kid: String,
    },
    /// Its key is not one of its algorithm.
    #[error("the ID token is signed by {alg}, and key {kid:?} is none for that")]
    KeyType {
        /// Which algorithm.
        alg: &'static str,
        /// Which key.
        kid: String,
    },
    /// It was not signed with the key that it names, or was changed since.
    #[error("the signature of the ID token is wrong")]
    Signature,
    /// A claim that every ID token has is not there, or has another form.
    #[error("the ID token has no claim {claim} of the right form")]
    Claim {
        /// Which.
        claim: &'static str,
    },
    /// Another provider issued it.
    #[error("the ID token is of issuer {said:?}, which is not the configured one")]
    Issuer {
        /// What it says.
        said: String,
    },
    /// It is for others.
    #[error("the ID token is for another client")]
    Audience,
    /// It was given to another client.
    #[error("the ID token was given to another client (azp)")]
    AuthorizedParty,
    /// It is over.
    #[error(
        "the ID token has expired; sign in again, and compare the clocks of this machine and of the provider"
    )]
    Expired,
    /// It is of later.
    #[error("the ID token is not good yet; compare the clocks of this machine and of the provider")]
    NotYet,
    /// It is of another sign-in.
    #[error("the ID token belongs to another sign-in (nonce); sign in again")]
    Nonce,
    /// Userinfo speaks of somebody else.
    #[error("userinfo is of another subject than the ID token")]
    Subject,
    /// The provider does not say the name.
    #[error(
        "the provider gives no name: the claim {claim} is absent or no text; ask for a scope that has it, or set name_claim"
    )]
    NoName {
        /// Which claim was looked for.
        claim: String,
    },
    /// The name is none that the directory could have.
    #[error("the claim {claim} is no name of the directory; set name_claim to one that is")]
    Name {
        /// Which claim.
        claim: String,
        /// Why not.
        #[source]
        source: NameError,
    },
    /// The name is an address that may be somebody else's.
    #[error("the name is a mail address that the provider has not verified; verify it there")]
    NameUnverified,
    /// More departments than a person can have.
    #[error(
        "the provider's groups give {count} departments, and a person is of at most {most}; give fewer in `departments`",
        most = bounds::PERSON_DEPARTMENTS
    )]
    Departments {
        /// How many.
        count: usize,
    },
}

/// What has to be changed before anybody can sign in.
#[derive(Debug, Error)]
pub enum Fault {
    /// A setting breaks its rule.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// No client can be made.
    #[error("no HTTP client can be made")]
    Client(#[source] reqwest::Error),
    /// No encrypted connection can be made, mostly for want of a certificate that is trusted.
    #[error(
        "there is no encrypted connection to the provider: {why}; compare issuer, ca_file and its certificate"
    )]
    Encryption {
        /// Why not.
        why: String,
    },
    /// It answers with another address.
    #[error(
        "asked for its {asked}, the provider redirects, and redirects are not followed; set issuer to its own address"
    )]
    Redirect {
        /// What it was asked for.
        asked: Asked,
    },
    /// It answers more than is read.
    #[error("asked for its {asked}, the provider answers more than {most} KiB; nothing of it is used")]
    TooLong {
        /// What it was asked for.
        asked: Asked,
        /// What is read at most.
        most: usize,
    },
    /// It answers with a status that it should not.
    #[error("asked for its {asked}, the provider answers {status}: {said}")]
    Status {
        /// What it was asked for.
        asked: Asked,
        /// The status.
        status: u16,
        /// In its words, shortened.
        said: String,
    },
    /// It answers something else.
    #[error(
        "asked for its {asked}, the provider answers what cannot be read; does issuer name an OpenID Connect provider?"
    )]
    Unreadable {
        /// What it was asked for.
        asked: Asked,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// Its document is of another issuer.
    #[error(
        "the discovery document is of issuer {said:?}; set issuer to exactly this, if it is the right provider"
    )]
    Issuer {
        /// What it says.
        said: String,
    },
    /// Its document names an address that nothing is sent to.
    #[error(
        "the discovery document has {field} {value:?}, which has to be an address of https:// (http:// only on this machine)"
    )]
    Endpoint {
        /// Which field.
        field: &'static str,
        /// What it says.
        value: String,
    },
    /// It does not know PKCE with SHA-256.
    #[error("the provider does not offer S256 for PKCE, and without it nobody signs in")]
    NoPkce,
    /// It knows no way to show the secret.
    #[error(
        "the provider takes secrets by {said}, and only client_secret_basic and client_secret_post are known here"
    )]
    AuthMethod {
        /// What it offers.
        said: String,
    },
    /// It does not take the client.
    #[error(
        "the provider refuses the client: {said}; compare client_id and client_secret with what is registered there"
    )]
    ClientRefused {
        /// In its words.
        said: String,
    },
}

/// So much is told of what a provider says, without control characters.
pub(crate) fn brief(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
