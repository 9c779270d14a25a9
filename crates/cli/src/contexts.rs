//! Contexts: servers with their keys, under names, in a file that only its owner can read.
//!
//! A key of a context goes to the server of that context and to no other, and nothing of what is secret of it is shown.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::files;

/// Names the file, in place of the usual one.
const FILE_VARIABLE: &str = "TIDEMILL_CONTEXTS";
/// Most contexts of a file.
const MAX_CONTEXTS: usize = 200;
/// Most characters of a name.
const MAX_NAME_CHARS: usize = 64;
/// Most letters of a person's name.
const MAX_USER_CHARS: usize = 200;
/// Most bytes of a key.
const MAX_KEY_BYTES: usize = 4096;
const LISTED: &str = "`tidemill context ls` lists them";

/// A server, and what opens it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// `http://host:port` or `https://host:port`.
    pub(crate) server: String,
    /// `APP:SECRET`, or a token. None: only calls that need no key are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The person in whose name the key calls. None: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) as_user: Option<String>,
    /// The authorities that may have signed its certificate. None: those of the settings, or of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl Context {
    /// Whose key it is, as far as that is no secret.
    pub(crate) fn whose(&self) -> Option<&str> {
        self.key.as_deref().map(|key| key.split_once(':').map_or("a token", |(app, _)| app))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("server", &self.server).finish_non_exhaustive()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

/// All of the file.
#[derive(Debug)]
pub(crate) struct Contexts {
    file: PathBuf,
    contents: Contents,
}

impl Contexts {
    /// Those of the person who runs this program. There may be none, and no file.
    ///
    /// # Errors
    /// The file is open to others, cannot be read, or is of another form.
    pub(crate) fn read() -> Done<Self> {
        match usual_file() {
            Some(file) => Self::of(file),
            // Nobody has a home: there is nothing to read, and nowhere to write.
            None => Ok(Self { file: PathBuf::new(), contents: Contents::default() }),
        }
    }

    fn of(file: PathBuf) -> Done<Self> {
        let contents = match text(&file) {
            Ok(text) => parse(&file, &text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Contents::default(),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let hint = format!("make it yours alone: chmod 600 {}", file.display());
                return Err(Failure::unreadable(&file, &error).hint(hint));
            }
            Err(error) => return Err(Failure::unreadable(&file, &error)),
        };
        Ok(Self { file, contents })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Context)> {
        self.contents.contexts.iter().map(|(name, context)| (name.as_str(), context))
    }

    /// The name of the current one.
    pub(crate) fn current(&self) -> Option<&str> {
        self.contents.current.as_deref()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Context> {
        self.contents.contexts.get(name)
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn named(&self, name: &str) -> Done<&Context> {
        self.get(name).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there is no context {name:?} in {}", self.file.display()))
                .hint(format!("{LISTED}; `tidemill login --server URL --context {name}` makes one"))
        })
    }

    /// Puts one in place of what has the name.
    ///
    /// # Errors
    /// Name, server or key cannot be accepted, or there are too many.
    pub(crate) fn put(&mut self, name: &str, context: Context) -> Done {
        check(name, &context).map_err(Failure::bad_input)?;
        let contexts = &mut self.contents.contexts;
        if !contexts.contains_key(name) && contexts.len() >= MAX_CONTEXTS {
            let told =
                format!("context {name:?}: there are {MAX_CONTEXTS} contexts, and there may be no more");
            return Err(Failure::bad_input(told).hint("forget one with `tidemill context rm NAME`"));
        }
        contexts.insert(name.to_owned(), context);
        Ok(())
    }

    /// Makes one the current.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn make_current(&mut self, name: &str) -> Done {
        self.named(name)?;
        self.contents.current = Some(name.to_owned());
        Ok(())
    }

    /// Forgets one. If it was current, none is.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn remove(&mut self, name: &str) -> Done {
        self.named(name)?;
        self.contents.contexts.remove(name);
        self.contents.current.take_if(|current| current == name);
        Ok(())
    }

    /// Writes the file: it is there whole, or as it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self) -> Done {
        if self.file.as_os_str().is_empty() {
            let told =
                format!("neither {FILE_VARIABLE} nor XDG_CONFIG_HOME nor HOME says where contexts are kept");
            return Err(Failure::bad_input(told).hint(format!("name a file in {FILE_VARIABLE}")));
        }
        let text = serde_saphyr::to_string(&self.contents)
            .map_err(|error| Failure::caused("cannot write YAML", &error))?;
        replace(&self.file, text.as_bytes())
            .map_err(|error| Failure::caused(format!("cannot write {}", self.file.display()), &error))
    }
}

/// Where they are.
fn usual_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(FILE_VARIABLE).or_else(|| {
        let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
        Some(config?.join("tidemill/contexts.yaml"))
    })
}

/// The file's text, if nobody else can read or write it.
fn text(file: &Path) -> io::Result<String> {
    let opened = files::open(file)?;
    let of = opened.metadata()?;
    if of.mode() & 0o077 != 0 || of.uid() != rustix::process::geteuid().as_raw() {
        let why =
            format!("it holds keys, and others than its owner may read it (mode {:o})", of.mode() & 0o777);
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    let mut text = String::new();
    opened.take(files::MAX_SETTINGS_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > files::MAX_SETTINGS_BYTES {
        let rule = format!("must have at most {} bytes", files::MAX_SETTINGS_BYTES);
        return Err(io::Error::new(ErrorKind::InvalidInput, rule));
    }
    Ok(text)
}

/// What the library says of a wrong file may show a piece of it, and so of a key: only the place is told.
fn parse(file: &Path, text: &str) -> Done<Contents> {
    let broken = |why: String| {
        Failure::bad_input(format!("{}: {why}", file.display()))
            .hint("correct it, or move it away and use `tidemill login` again")
    };
    let contents: Contents = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map_or_else(String::new, |at| format!("line {}: ", at.line()));
        broken(format!(
            "{place}it must have `current`, a name, and `contexts`, with `server`, `key`, `as_user` and `ca_file` under each name"
        ))
    })?;
    if contents.contexts.len() > MAX_CONTEXTS {
        return Err(broken(format!("it may have {MAX_CONTEXTS} contexts, and has more")));
    }
    for (name, context) in &contents.contexts {
        check(name, context).map_err(broken)?;
    }
    Ok(contents)
}

/// What is wrong with a context. A key is not shown.
fn check(name: &str, context: &Context) -> Result<(), String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_of_name) {
        return Err(format!(
            "context {name:?}: its name must have 1 to {MAX_NAME_CHARS} letters, digits, `.`, `_` and `-`"
        ));
    }
    if !context.server.starts_with("http://") && !context.server.starts_with("https://") {
        let server = &context.server;
        return Err(format!("context {name:?}: server {server:?} must begin with http:// or https://"));
    }
    let is_user = |name: &str| {
        (1..=MAX_USER_CHARS).contains(&name.chars().count())
            && name.trim() == name
            && !name.chars().any(char::is_control)
    };
    if let Some(user) = context.as_user.as_deref().filter(|user| !is_user(user)) {
        return Err(format!(
            "context {name:?}: as_user {user:?} must have 1 to {MAX_USER_CHARS} letters, none of which steers, and no space at \
             its ends"
        ));
    }
    check_key(context.key.as_deref().unwrap_or("k"))
        .map_err(|rule| format!("context {name:?}: its key {rule}"))
}

/// What a key has to be, whatever its form.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    match key.len() {
        1..=MAX_KEY_BYTES if key.chars().all(|c| c.is_ascii_graphic()) => Ok(()),
        _ => Err(format!(
            "must be APP:SECRET or a token, 1 to {MAX_KEY_BYTES} visible letters of ASCII without spaces"
        )),
    }
}

fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = dir {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut to| {
            to.write_all(bytes)?;
            to.sync_all()?;
            fs::rename(&beside, file)
        });
    if written.is_err() {
        // It is not there, or has to go.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(key: &str) -> Context {
        Context { server: "https://h:1".to_owned(), key: Some(key.to_owned()), as_user: None, ca_file: None }
    }

    /// API-6: contexts are kept with keys of any form, for the owner alone, and the one that is removed is not current any more.
    #[test]
    fn contexts_are_kept_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/contexts.yaml");
        let mut contexts = Contexts::of(file.clone()).unwrap();
        assert_eq!((contexts.all().count(), contexts.current()), (0, None));
        contexts.put("prod", context("etl:s3cret")).unwrap();
        contexts.put("test", context("tm_123")).unwrap();
        contexts.make_current("prod").unwrap();
        contexts.write().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut read = Contexts::of(file.clone()).unwrap();
        assert_eq!(read.current(), Some("prod"));
        assert_eq!(read.named("test").unwrap(), &context("tm_123"));
        let whose: Vec<_> = read.all().map(|(_, context)| context.whose()).collect();
        assert_eq!(whose, [Some("etl"), Some("a token")]);
        assert!(!format!("{read:?}").contains("s3cret"));
        read.remove("prod").unwrap();
        read.write().unwrap();
        assert_eq!(Contexts::of(file.clone()).unwrap().current(), None);
        assert_eq!(read.make_current("prod").unwrap_err().exit, Exit::NotFound);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let refused = Contexts::of(file).unwrap_err();
        assert!(refused.message.contains("others than its owner may read it (mode 640)"), "{refused}");
        assert!(refused.hint.unwrap().starts_with("make it yours alone: chmod 600"));
    }

    /// API-6: what cannot be a context is refused with its field and rule, and no message shows a key.
    #[test]
    fn bad_contexts_are_refused_and_keys_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("contexts.yaml");
        let mut contexts = Contexts::of(file.clone()).unwrap();
        let key = |key: &str| Context { key: Some(key.to_owned()), ..context("") };
        let plain = || Context { server: "h:1".to_owned(), ..context("a:b") };
        for (name, context, rule) in [
            ("", context("a:b"), "its name must have 1 to 64"),
            ("a b", context("a:b"), "its name must have 1 to 64"),
            ("a", plain(), "server \"h:1\" must begin with http:// or https://"),
            ("a", key("s3cret\n"), "its key must be APP:SECRET or a token"),
            ("a", key(""), "its key must be APP:SECRET or a token"),
        ] {
            let refused = contexts.put(name, context).unwrap_err();
            assert!(refused.message.contains(rule) && !refused.message.contains("s3cret"), "{refused}");
        }
        assert_eq!(contexts.all().count(), 0);
        for text in [
            "contexts: {a: {server: 'http://h', key: 's3cret', more: 1}}",
            "contexts: {a: {server: 'http://h', key: {s3cret: 1}}}",
            "contexts: {a: {server: 'h', key: s3cret}}",
            "s3cret",
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            let refused = Contexts::of(file.clone()).unwrap_err();
            assert!(refused.exit == Exit::BadInput && !refused.to_string().contains("s3cret"), "{refused}");
        }
    }

    /// Their number has a bound.
    #[test]
    fn contexts_are_bounded() {
        let mut contexts = Contexts { file: PathBuf::new(), contents: Contents::default() };
        (0..MAX_CONTEXTS).for_each(|number| contexts.put(&format!("c{number}"), context("a:b")).unwrap());
        assert!(contexts.put("one-more", context("a:b")).is_err());
        assert!(contexts.put("c0", context("c:d")).is_ok());
    }
}
