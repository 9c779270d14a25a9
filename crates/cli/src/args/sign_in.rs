//! `tidemill login`, `logout`, `password` and `token …`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use tidemill_model::Permission;

/// Who logs in.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoginArgs {
    /// Sign in as this person: the password is read, and a token is made and kept in place of a key
    #[arg(long, value_name = "NAME")]
    pub(crate) person: Option<String>,
    /// Read an invitation first, and a new password, twice: the person has that from then on
    #[arg(long, requires = "person")]
    pub(crate) invitation: bool,
    /// For how many days the token is good [default: 90]
    #[arg(long, value_name = "N", requires = "person", value_parser = clap::value_parser!(u16).range(1..=366))]
    pub(crate) days: Option<u16>,
}

/// Whose password changes.
#[derive(Debug, Clone, Args)]
pub(crate) struct PasswordArgs {
    /// The person, who has to know the present password
    #[arg(long, value_name = "NAME")]
    pub(crate) person: String,
}

/// What to do with tokens, by which programs call as a person.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenCommand {
    /// List the sessions, tokens and invitations of the person who calls
    Ls,
    /// Make a token; the password is read, and the token is shown once
    Create {
        /// What it is for
        title: String,
        /// The person
        #[arg(long, value_name = "NAME")]
        person: String,
        /// What it may of what the person may (repeatable) [default: all of it]
        #[arg(long, value_parser = permissions(), value_name = "PERMISSION")]
        may: Vec<String>,
        /// For how many days it is good [default: 90]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=366))]
        days: Option<u16>,
    },
    /// End a session, a token or an invitation of the person who calls
    Revoke {
        /// Its id
        id: String,
    },
}

fn permissions() -> PossibleValuesParser {
    PossibleValuesParser::new(Permission::ALL.into_iter().map(|of| of.as_str()))
}
