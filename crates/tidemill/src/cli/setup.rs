//! What is written or shown for those who set a cluster up: generated files, topics, the configuration.

use std::path::PathBuf;

use clap::Subcommand;

/// What to do with the generated files.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemasCommand {
    /// Write them
    Write {
        /// Where
        #[arg(long, default_value = "schemas")]
        dir: PathBuf,
    },
    /// Fail where one is not what the code says
    Check {
        /// Where
        #[arg(long, default_value = "schemas")]
        dir: PathBuf,
    },
}

/// What to do with a cluster's topics.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// Make those that are missing, with the settings that the log needs
    Create,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every setting with its effective value and where it came from
    Show,
    /// The JSON Schema of the configuration file
    Schema,
    /// Every environment variable, as Markdown
    Environment,
}
