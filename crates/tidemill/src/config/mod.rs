//! The effective configuration: defaults < file < environment < options, and where each value came from.

mod check;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod documented;
mod env;
mod executor;
mod layers;
mod log;
mod process;
mod security;
mod settings;
mod show;
mod tables;
mod tls;

pub(crate) use env::reference as environment;
pub(crate) use layers::{Flag, Loaded, load};
pub(crate) use log::LogBackend;
#[cfg(feature = "kafka")]
pub(crate) use security::{SaslMechanism, SecuritySettings};
pub(crate) use settings::Settings;
pub(crate) use show::{as_json, as_table, schema};
pub(crate) use tls::{TlsApiSettings, TlsSettings};

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidemill_cli::{Done, Failure, Global, files};

/// The file that is read where none is named, if it is there.
const DEFAULT_FILE: &str = "tidemill.toml";

/// Loads what `global` and the process's environment say.
pub(crate) fn from_command_line(global: &Global, mut flags: Vec<Flag>) -> Done<Loaded> {
    if let Some(data) = &global.data {
        flags.push(Flag::new("data_dir", data.display().to_string(), "--data or TIDEMILL_DATA"));
    }
    let file = match &global.config {
        Some(file) => Some(file.clone()),
        None => Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.is_file()),
    };
    let text = file.as_deref().map(read).transpose()?;
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect::<Vec<_>>();
    load(file.as_deref().zip(text.as_deref()), &vars, &flags)
}

fn read(file: &Path) -> Done<String> {
    files::text(file, files::MAX_SETTINGS_BYTES).map_err(|error| {
        Failure::caused(format!("cannot read the configuration file {}", file.display()), &error)
            .with_exit(tidemill_cli::Exit::BadInput)
            .hint("name a plain file of at most 1 MiB with --config or TIDEMILL_CONFIG")
    })
}

/// The default settings as a value; its shape is the shape of every layer.
fn defaults() -> Value {
    serde_json::to_value(Settings::default()).expect("settings are plain data")
}
