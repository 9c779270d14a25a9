use tidemill_derive::{Levelled, vocabulary};

use crate::{Credential, CredentialId, CredentialProof, CredentialUse, CredentialsToEnd, PersonName};

/// What people sign in with. To the catalogue.
#[vocabulary(Levelled)]
pub enum CredentialCommand {
    /// Lets a person sign in, call by a token, or choose a password.
    #[level(4)]
    Issue {
        /// What is issued.
        credential: Box<Credential>,
        /// By what the person has shown who they are; absent: the provider says so, or it is an invitation.
        shown: Option<CredentialProof>,
        /// Refuse it where people can sign in already, or were invited.
        #[serde(default)]
        first_only: bool,
    },
    /// Uses an invitation: the person has this password, and is signed in.
    #[level(4)]
    Redeem {
        /// Which.
        invitation: CredentialId,
        /// The person; of the first start's, who is added as a super-administrator.
        person: PersonName,
        /// The hash of the password, as argon2id writes it.
        password: String,
        /// What the person is signed in by.
        session: Box<Credential>,
    },
    /// Gives a person another password; every session of before ends.
    #[level(4)]
    ChangePassword {
        /// Whose.
        person: PersonName,
        /// The hash of the one that the person has shown.
        old: String,
        /// The session that calls.
        by: CredentialId,
        /// Its hash, as argon2id writes it.
        password: String,
        /// What the person is signed in by from now on.
        session: Box<Credential>,
    },
    /// Ends what a person signs in with.
    #[level(4)]
    End {
        /// Whose.
        person: PersonName,
        /// Which.
        which: CredentialsToEnd,
    },
    /// Which credentials were shown of late.
    #[level(4)]
    ReportUses {
        /// 1 to 100.
        uses: Vec<CredentialUse>,
    },
}
