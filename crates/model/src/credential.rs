//! What people sign in with, as the catalogue keeps it: of every secret the hash alone.

use std::collections::BTreeSet;

use tidemill_derive::{Word, vocabulary};

use crate::{CredentialId, Permission, PersonName, Timestamp, bounds};

/// What a credential is for.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum CredentialKind {
    /// A person is signed in, in a browser.
    Session,
    /// A program or script of a person calls.
    Token,
    /// A link that lets a person choose a password once.
    Invitation,
}

impl CredentialKind {
    /// The longest that one is good, hours.
    #[must_use]
    pub const fn max_hours(self) -> i64 {
        24 * match self {
            Self::Session => 30,
            Self::Token => 366,
            Self::Invitation => 7,
        }
    }

    /// As many a person may have at once.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Session | Self::Token => 20,
            Self::Invitation => 1,
        }
    }
}

/// A secret that shows who calls, found by its id.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Its id, which is no secret.
    pub id: CredentialId,
    /// What it is for.
    pub kind: CredentialKind,
    /// Whose it is; absent: an invitation of the first start, for whoever becomes the first super-administrator.
    pub person: Option<PersonName>,
    /// SHA-256 of the secret, hex.
    #[schemars(pattern(bounds::KEY_PATTERN))]
    pub hash: String,
    /// What the person calls a token; of a session, how the person signed in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::CREDENTIAL_TITLE_CHARS), pattern(bounds::VISIBLE_PATTERN))]
    pub title: String,
    /// What a token may do of what the person may; absent: all of it. It may always `view`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<Permission>")]
    pub may: BTreeSet<Permission>,
    /// From then on it is not good.
    pub expires_at: Timestamp,
}

/// By what somebody has shown who they are, where that has to be good still when the catalogue decides.
#[vocabulary(Eq)]
pub enum CredentialProof {
    /// By this session, which calls.
    Session(CredentialId),
    /// By the password of this hash.
    Password(String),
}

/// Which of a person's credentials end.
#[vocabulary(Eq)]
pub enum CredentialsToEnd {
    /// One.
    One(CredentialId),
    /// Every session: signed out everywhere.
    Sessions,
    /// All that the person signs in with, the password too.
    Everything,
}

/// Why a credential is not good any more.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum CredentialEnd {
    /// Somebody who may ended it: the person, or an administrator.
    Revoked,
    /// An invitation was used.
    Used,
    /// A newer one took its place.
    Replaced,
    /// Its time was over.
    Expired,
    /// The person has another password.
    PasswordChanged,
    /// The person is disabled, or not in the directory any more.
    PersonLeft,
}

/// That a credential was shown.
#[vocabulary(Eq)]
pub struct CredentialUse {
    /// Which.
    pub credential: CredentialId,
    /// When it was shown last.
    pub at: Timestamp,
}
