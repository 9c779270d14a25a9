//! `tidemill directory …`, `person …`, `department …` and `on-call`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidemill_model::Timestamp;

use super::site::KeyRole;

/// A file of the directory, and what is done with who is not in it.
#[derive(Debug, Clone, Args)]
pub(crate) struct DirectoryFileArgs {
    /// File with the lists `departments` and `people`; `-` is the standard input
    #[arg(short, long, value_name = "PATH")]
    pub(crate) file: PathBuf,
    /// Delete the people and departments that the file does not have
    #[arg(long)]
    pub(crate) prune: bool,
}

/// What to do with the directory of people and departments.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DirectoryCommand {
    /// Add and change the people and departments of a YAML file
    Apply {
        #[command(flatten)]
        args: DirectoryFileArgs,
        /// Only say what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Say what `apply` would change
    Diff {
        #[command(flatten)]
        args: DirectoryFileArgs,
    },
    /// Write all people and departments as YAML that `apply` takes back unchanged
    Export,
}

/// What to do with people.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PersonCommand {
    /// List people, by name
    Ls {
        /// Only those of this department
        #[arg(long, value_name = "NAME")]
        department: Option<String>,
        /// Only those of this role
        #[arg(long, value_enum)]
        role: Option<KeyRole>,
        /// Only those who are disabled
        #[arg(long)]
        disabled: bool,
    },
    /// Show one person, with the departments that have them on call
    Show {
        /// The name
        name: String,
    },
    /// Keep a person from everything; their jobs and places in rotas go to a successor
    Disable {
        /// The name
        name: String,
        /// Who owns their jobs and takes their places from now on; needed where there are some
        #[arg(long, value_name = "NAME")]
        successor: Option<String>,
    },
    /// Let a disabled person in again
    Enable {
        /// The name
        name: String,
    },
    /// Make an invitation, by which the person chooses a password; whoever has the code can
    Invite {
        /// The name
        #[arg(required_unless_present = "first")]
        name: Option<String>,
        /// Invite whoever becomes the first super-administrator, where nobody can sign in yet
        #[arg(long, conflicts_with = "name")]
        first: bool,
        /// Sign in as this person for it: the password is read; a token invites nobody
        #[arg(long, value_name = "PERSON", conflicts_with = "first")]
        by: Option<String>,
    },
    /// List the sessions, tokens and invitations of a person
    Credentials {
        /// The name
        name: String,
    },
    /// End all that a person signs in with, the password too; or one session, token or invitation
    SignOut {
        /// The name
        name: String,
        /// Only this one
        #[arg(long, value_name = "ID")]
        credential: Option<String>,
    },
    /// Delete a person who owns no job, is on call nowhere and succeeds nobody
    Delete {
        /// The name
        name: String,
    },
}

/// What to do with departments.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DepartmentCommand {
    /// List departments, by name
    Ls,
    /// Show one department, with its members and who is on call
    Show {
        /// Its name
        name: String,
    },
    /// Delete a department that nobody is of and that owns no job
    Delete {
        /// Its name
        name: String,
    },
}

/// Of whom and when it is asked who is on call.
#[derive(Debug, Clone, Args)]
pub(crate) struct OnCallArgs {
    /// Only of this department [default: of all that have a rota]
    pub(crate) department: Option<String>,
    /// At this time, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
    /// Who is in so many days from then on, 1 to 366; of one department
    #[arg(long, value_name = "N", requires = "department", value_parser = clap::value_parser!(u16).range(1..=366))]
    pub(crate) days: Option<u16>,
}
