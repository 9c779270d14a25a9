use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Credential, CredentialEnd, CredentialId, PersonName, Timestamp};

/// What people sign in with.
#[vocabulary(Aggregate)]
pub enum CredentialEvent {
    /// Somebody signs in, or gets a token or an invitation.
    #[event(
        kind = "credential.issued",
        subject = "credential/{credential.id}",
        internal = "Directory",
        level = 4
    )]
    Issued {
        /// As accepted.
        credential: Arc<Credential>,
    },
    /// A credential is not good any more.
    #[event(
        kind = "credential.ended",
        subject = "credential/{credential}",
        internal = "Directory",
        level = 4
    )]
    Ended {
        /// Which.
        credential: CredentialId,
        /// Whose; absent: the first start's invitation.
        person: Option<PersonName>,
        /// Why.
        reason: CredentialEnd,
    },
    /// A person signs in with nothing of before any more: neither credentials nor password.
    #[event(kind = "credentials.ended", subject = "person/{person}", internal = "Directory", level = 4)]
    AllEnded {
        /// Whose.
        person: PersonName,
        /// Why.
        reason: CredentialEnd,
    },
    /// A credential was shown, for the first time in an hour.
    #[event(kind = "credential.used", subject = "credential/{credential}", internal = "Directory", level = 4)]
    Used {
        /// Which.
        credential: CredentialId,
        /// When.
        at: Timestamp,
    },
    /// A person has this password from now on.
    #[event(kind = "password.set", subject = "person/{person}", internal = "Directory", level = 4)]
    PasswordSet {
        /// Whose.
        person: PersonName,
        /// Its hash, as argon2id writes it, with salt and costs.
        hash: Arc<str>,
    },
}
