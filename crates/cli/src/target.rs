//! Which server, and with which key. The first of these that is there says it:
//!
//! 1. `--server`, then `TIDEMILL_SERVER`; beside `--context` only where both name the same server
//! 2. `--context`, then `TIDEMILL_CONTEXT`
//! 3. the data directory, where `--data`, `TIDEMILL_DATA`, `--config` or `TIDEMILL_CONFIG` names one
//! 4. the current context
//! 5. the data directory `./tidemill-data`, where a server runs there, and the default address
//!
//! `--key`, then `TIDEMILL_KEY`, is the key for any of them. Else the key is that of the context that gave the server, or
//! `admin.key` of the data directory. `--as-user`, then `TIDEMILL_AS_USER`, is the person in whose name it calls; else that of the
//! context, where its key counts. So no key of a context goes to another server than its own.

use std::path::{Path, PathBuf};

use crate::address;
use crate::args::Global;
use crate::contexts::{Context, Contexts};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::files;
use crate::server::OTHER_SERVER;
use crate::session::Settings;

/// Where nothing else is said.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8780";
/// How that came about.
const DEFAULT_FROM: &str = "the default address";
/// Written by the first start: `APP:SECRET` of the administrator.
pub const KEY_FILE: &str = "admin.key";

/// Written by `standalone`: the operator's secret.
pub const OPERATOR_FILE: &str = "operator.key";

/// A server and a key.
#[derive(Debug, Clone)]
pub struct Target {
    /// Without a slash at the end.
    pub server: String,
    /// Where that came from, for messages.
    pub server_from: &'static str,
    /// `APP:SECRET`.
    pub key: Option<String>,
    /// The person in whose name the key calls.
    pub as_user: Option<String>,
    /// The authorities that may have signed an encrypted server's certificate; none: those that the machine trusts.
    pub ca_file: Option<PathBuf>,
}

impl Target {
    /// Finds server and key by the command line, and by the contexts of the person who runs this program.
    ///
    /// # Errors
    /// As [`Target::find`], or the context is not there or contradicts `--server`, or the file of contexts cannot be used.
    pub(crate) fn of_command(global: &Global, settings: &Settings) -> Done<Self> {
        let (server, key) = (global.server.as_deref(), global.key.as_deref());
        let is_dir_named = global.data.is_some() || global.config.is_some();
        let target = match (&global.context, server) {
            (None, Some(_)) => Self::find(server, key, settings)?,
            (None, None) if is_dir_named => Self::find(server, key, settings)?,
            (None, None) => {
                let contexts = Contexts::read()?;
                match contexts.current() {
                    Some(name) => {
                        Self::of_context(contexts.named(name)?, "the current context", key, settings)
                    }
                    None => Self::find(server, key, settings)?,
                }
            }
            (Some(name), server) => {
                let contexts = Contexts::read()?;
                let context = contexts.named(name)?;
                if let Some(other) = server.filter(|server| server.trim_end_matches('/') != context.server) {
                    return Err(two_servers(name, &context.server, other));
                }
                Self::of_context(context, "--context or TIDEMILL_CONTEXT", key, settings)
            }
        };
        let as_user = global.as_user.clone().or(target.as_user.clone());
        Ok(Self { as_user, ..target.trusting(global.ca_file.as_deref()) })
    }

    fn of_context(context: &Context, from: &'static str, key: Option<&str>, settings: &Settings) -> Self {
        // The person goes with the context's key: another one may speak for others.
        let as_user = context.as_user.clone().filter(|_| key.is_none());
        let key = key.map(|key| key.trim().to_owned()).or_else(|| context.key.clone());
        let ca_file = context.ca_file.clone().or_else(|| settings.ca_file.clone());
        Self { server: context.server.clone(), server_from: from, key, as_user, ca_file }
    }

    /// Finds server and key; `server` and `key` are what option or environment gave.
    ///
    /// # Errors
    /// The address is none, a file cannot be read, or a key would go to whoever listens at the default address.
    pub fn find(server: Option<&str>, key: Option<&str>, settings: &Settings) -> Done<Self> {
        let (server, server_from) = match server {
            Some(server) => (server.to_owned(), "--server or TIDEMILL_SERVER"),
            None => match address::find(&settings.data_dir)
                .map_err(|error| unreadable(&settings.data_dir, &error))?
            {
                Some(address) => (address, "the data directory's api.address"),
                None => (DEFAULT_SERVER.to_owned(), DEFAULT_FROM),
            },
        };
        let server = if server.contains("://") { server } else { format!("http://{server}") };
        if !server.starts_with("http://") && !server.starts_with("https://") {
            return Err(bad_address(&server));
        }
        let key_is_found = key.is_none();
        let key = match key {
            Some(key) => Some(key.trim().to_owned()),
            None => read(&settings.keys_dir.join(KEY_FILE))?,
        };
        if key_is_found && key.is_some() && server_from == DEFAULT_FROM {
            return Err(nobody_there(settings, "the administrator's key"));
        }
        let server = server.trim_end_matches('/').to_owned();
        Ok(Self { server, server_from, key, as_user: None, ca_file: settings.ca_file.clone() })
    }

    /// Trusts the authorities of this file, where one is given, in place of those that the settings name.
    #[must_use]
    pub fn trusting(self, ca_file: Option<&Path>) -> Self {
        Self { ca_file: ca_file.map(Path::to_owned).or(self.ca_file), ..self }
    }

    /// Shows the operator's secret instead of a key, where there is one: it counts also while the tables, and with
    /// them every application key, are lost.
    ///
    /// # Errors
    /// As [`Target::find`].
    pub fn with_operator_key(self, settings: &Settings) -> Done<Self> {
        let operator = match &settings.operator_key {
            Some(secret) => Some(secret.clone()).filter(|secret| !secret.is_empty()),
            None => read(&settings.keys_dir.join(OPERATOR_FILE))?,
        };
        if operator.is_some() && self.server_from == DEFAULT_FROM {
            return Err(nobody_there(settings, "the operator's secret"));
        }
        Ok(Self { key: operator.or(self.key), ..self })
    }
}

/// Either may be meant, and a key must not go to the wrong one.
fn two_servers(context: &str, of_context: &str, other: &str) -> Failure {
    Failure::bad_input(format!(
        "--context {context:?} is {of_context}, and --server or TIDEMILL_SERVER says {other:?}: name one server"
    ))
    .hint("leave one of them out; `tidemill context show` shows what a context names")
}

/// What cannot be an address.
pub(crate) fn bad_address(server: &str) -> Failure {
    Failure::bad_input(format!("server {server:?} must begin with http:// or https://"))
        .hint("name it as in --server https://tidemill.example:8780")
}

/// Whoever listens at the default address may be anybody.
fn nobody_there(settings: &Settings, secret: &str) -> Failure {
    let file = settings.data_dir.join(address::ADDRESS_FILE);
    let message = format!("no server holds {}, and {secret} is sent to nobody else", file.display());
    Failure::new(Exit::Unreachable, message).hint(OTHER_SERVER)
}

/// A small file's one line; absent where there is no such file, or it is not ours to read.
fn read(path: &Path) -> Done<Option<String>> {
    match files::text(path, files::MAX_SETTINGS_BYTES) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::caused(format!("cannot read {}", path.display()), error)
        .hint("name server and key with --server and --key, or another directory with --data")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(dir: &Path) -> Settings {
        Settings { data_dir: dir.to_owned(), keys_dir: dir.to_owned(), ..Settings::default() }
    }

    /// API-6: the key comes from the option, then the environment, then the data directory.
    #[test]
    fn option_wins_over_data_directory_over_default() {
        let empty = tempfile::tempdir().unwrap();
        let used = tempfile::tempdir().unwrap();
        let published = address::published(used.path(), "127.0.0.1:9000");
        fs::write(used.path().join(KEY_FILE), "admin:s3cret\n").unwrap();
        let found = |server, key, dir: &Path| {
            let target = Target::find(server, key, &of(dir)).unwrap();
            (target.server, target.key)
        };
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(found(None, None, empty.path()), (DEFAULT_SERVER.to_owned(), None));
        assert_eq!(found(None, None, used.path()), ("http://127.0.0.1:9000".to_owned(), key("admin:s3cret")));
        assert_eq!(
            found(Some("http://h:1/"), Some("a:b"), used.path()),
            ("http://h:1".to_owned(), key("a:b"))
        );
        // Whoever listens at the default address gets no key that it was not meant to have.
        drop(published);
        let settings = of(used.path());
        let refused = Target::find(None, None, &settings).unwrap_err();
        assert_eq!(refused.exit, Exit::Unreachable);
        assert!(refused.message.contains("no server holds"), "{}", refused.message);
        assert_eq!(found(None, Some("a:b"), used.path()).0, DEFAULT_SERVER);
        fs::remove_file(used.path().join(KEY_FILE)).unwrap();
        let target = Target::find(None, None, &settings).unwrap();
        assert_eq!(target.clone().with_operator_key(&settings).unwrap().key, None);
        fs::write(used.path().join(OPERATOR_FILE), "s3cret\n").unwrap();
        let refused = target.with_operator_key(&settings).unwrap_err();
        assert!(refused.message.contains("no server holds"), "{}", refused.message);
    }

    /// OPS-10: an encrypted server is called as it is named; the file of the command line goes before that of the settings.
    #[test]
    fn encrypted_addresses_are_taken_and_others_refused() {
        let settings = Settings { ca_file: Some("/settings".into()), ..Settings::default() };
        let target = Target::find(Some("https://h:1/"), Some("a:b"), &settings).unwrap();
        assert_eq!(
            (target.server.as_str(), target.ca_file.as_deref()),
            ("https://h:1", Some(Path::new("/settings")))
        );
        assert_eq!(target.clone().trusting(None).ca_file.as_deref(), Some(Path::new("/settings")));
        assert_eq!(
            target.trusting(Some(Path::new("/option"))).ca_file.as_deref(),
            Some(Path::new("/option"))
        );
        let failure = Target::find(Some("ftp://h"), None, &settings).unwrap_err();
        assert!(failure.hint.is_some());
    }
}
