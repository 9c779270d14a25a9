//! Paths as jobs write them, and whom to ask about them.

#[cfg(test)]
mod corpus;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidemill_model::FieldError;

/// The longest path, in bytes. HDFS allows 8,000 characters, most file systems 4,096 bytes.
const LONGEST: usize = 4_096;
const TOO_LONG: &str = "must not be longer than 4096 bytes, its name node included";
/// The longest key of S3, in bytes.
const LONGEST_KEY: usize = 1_024;

/// A path that may exist, checked and in one form, so that two spellings of one path are equal.
///
/// Written as `hdfs://name-node:port/…`, `hdfs:///…` where a default name node is configured, `file:///…` or
/// `/…` for this host, `s3://bucket/key…`. Repeated and trailing slashes are dropped (within a key of S3,
/// where they would be part of the name, repeated ones are refused). Patterns are refused.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Path {
    text: Arc<str>,
    kind: Kind,
    /// Where in the text the path proper begins, behind scheme and authority.
    begin: usize,
}

/// The kinds of places where a path can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file system of this host.
    Local,
    /// The Hadoop file system.
    Hdfs,
    /// An object store that speaks the protocol of S3.
    S3,
}

/// Whom to ask: what fails, hangs and is protected as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// This host, or one of its mounts where they are told apart; by mount point.
    Local(Arc<str>),
    /// A name node as `host:port`, or a name service.
    Hdfs(Arc<str>),
    /// A bucket.
    S3(Arc<str>),
}

impl Path {
    /// Checks a path as written in `field`. `name_node` is what `hdfs:///…` means.
    ///
    /// # Errors
    /// The field, the value and the rule that it breaks.
    pub fn parse(field: &str, written: &str, name_node: Option<&str>) -> Result<Self, FieldError> {
        let refuse = |rule: &str| FieldError::new(field, written, rule);
        check_characters(written).map_err(refuse)?;
        if let Some(rest) = written.strip_prefix("hdfs://") {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let authority = match (authority, name_node) {
                ("", None) => {
                    return Err(refuse(
                        "names no name node, and none is configured; write hdfs://HOST:PORT/… or configure \
                         hdfs.default_name_node",
                    ));
                }
                ("", Some(default)) => default,
                (named, _) => named,
            };
            check_name_node(authority).map_err(refuse)?;
            let path =
                Self::joined(Kind::Hdfs, &format!("hdfs://{authority}"), &absolute(path).map_err(refuse)?);
            // The default name node is a part of it by now, and its one form is read again.
            if path.text.len() > LONGEST { Err(refuse(TOO_LONG)) } else { Ok(path) }
        } else if let Some(rest) = ["s3://", "s3a://"].iter().find_map(|scheme| written.strip_prefix(scheme))
        {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            check_bucket(bucket).map_err(refuse)?;
            let key = key.strip_suffix('/').unwrap_or(key);
            check_key(key).map_err(refuse)?;
            Ok(Self::joined(Kind::S3, &format!("s3://{bucket}/"), key))
        } else if let Some(rest) = written.strip_prefix("file:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(refuse("names a host; a file is one of this host: write file:///… or /…"));
            }
            Ok(Self::joined(Kind::Local, "", &absolute(path).map_err(refuse)?))
        } else if written.starts_with('/') {
            Ok(Self::joined(Kind::Local, "", &absolute(written).map_err(refuse)?))
        } else {
            Err(refuse("has to begin with hdfs://, s3://, file:/// or /"))
        }
    }

    fn joined(kind: Kind, head: &str, tail: &str) -> Self {
        Self { text: format!("{head}{tail}").into(), kind, begin: head.len() }
    }

    /// The whole path, in its one form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What kind of place it is in.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whom to ask. All local paths are of one authority here; a [`Prober`](crate::Prober) tells mounts apart.
    #[must_use]
    pub fn authority(&self) -> Authority {
        let within = |scheme: &str| self.text[scheme.len()..self.begin].trim_end_matches('/').into();
        match self.kind {
            Kind::Local => Authority::Local("/".into()),
            Kind::Hdfs => Authority::Hdfs(within("hdfs://")),
            Kind::S3 => Authority::S3(within("s3://")),
        }
    }

    /// The path proper: absolute, or the key.
    #[must_use]
    pub fn inside(&self) -> &str {
        &self.text[self.begin..]
    }

    /// The directory that it is an entry of, as a path proper, and its name there; none for the root.
    #[must_use]
    pub fn entry(&self) -> Option<(&str, &str)> {
        match self.inside().rsplit_once('/') {
            Some((_, "")) => None,
            Some(("", name)) if self.kind != Kind::S3 => Some(("/", name)),
            Some(split) => Some(split),
            None => Some(("", self.inside())),
        }
    }

    /// The text of the directory that it is in, whole, to tell apart directories of different authorities.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.text[..self.text.rfind('/').unwrap_or(0).max(self.begin)]
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Path {
    type Error = FieldError;

    fn try_from(written: String) -> Result<Self, FieldError> {
        Self::parse("path", &written, None)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> String {
        path.text.to_string()
    }
}

impl Authority {
    /// What kind of place it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Authority::Local(_) => Kind::Local,
            Authority::Hdfs(_) => Kind::Hdfs,
            Authority::S3(_) => Kind::S3,
        }
    }

    /// The mount point, name node or bucket.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Authority::Local(name) | Authority::Hdfs(name) | Authority::S3(name) => name,
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Authority::Local(mount) => write!(f, "file://{mount}"),
            Authority::Hdfs(name_node) => write!(f, "hdfs://{name_node}"),
            Authority::S3(bucket) => write!(f, "s3://{bucket}"),
        }
    }
}

fn check_characters(written: &str) -> Result<(), &'static str> {
    if written.is_empty() {
        return Err("must not be empty");
    }
    if written.len() > LONGEST {
        return Err(TOO_LONG);
    }
    if written.chars().any(char::is_control) {
        return Err("must not hold control characters");
    }
    if written.contains(['*', '?', '[', ']', '{', '}']) {
        return Err("must not hold * ? [ ] { }: patterns are not looked up; name one path");
    }
    Ok(())
}

/// One form of an absolute path: single slashes, none at the end, no step up.
fn absolute(path: &str) -> Result<String, &'static str> {
    let mut clean = String::with_capacity(path.len() + 1);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return Err("must not hold the parts . and ..");
        }
        clean.push('/');
        clean.push_str(part);
    }
    if clean.is_empty() {
        clean.push('/');
    }
    Ok(clean)
}

pub(crate) fn check_name_node(authority: &str) -> Result<(), &'static str> {
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let named =
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if !named {
        return Err("names no name node before the path: letters, digits, dots, - and _, then perhaps :PORT");
    }
    match port.map(str::parse::<u16>) {
        None | Some(Ok(1..)) => Ok(()),
        Some(Ok(0) | Err(_)) => Err("the port of the name node has to be 1 to 65535"),
    }
}

pub(crate) fn check_bucket(bucket: &str) -> Result<(), &'static str> {
    let good = (3..=63).contains(&bucket.len())
        && bucket.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-'));
    if good {
        Ok(())
    } else {
        Err("its bucket has to be 3 to 63 lower-case letters, digits, dots and hyphens")
    }
}

fn check_key(key: &str) -> Result<(), &'static str> {
    if key.is_empty() {
        return Err("names a bucket but no key; write s3://BUCKET/KEY");
    }
    if key.len() > LONGEST_KEY {
        return Err("its key must not be longer than 1024 bytes");
    }
    if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("the parts of its key must not be empty, . or ..");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(written: &str) -> Result<Path, FieldError> {
        Path::parse("path", written, Some("nn1:8020"))
    }

    #[test]
    fn spellings_of_one_path_are_one_path() {
        let table = [
            ("/a//b/", "/a/b", Kind::Local),
            ("file:///a/b", "/a/b", Kind::Local),
            ("file:/a/b", "/a/b", Kind::Local),
            ("/", "/", Kind::Local),
            ("hdfs:///a/b", "hdfs://nn1:8020/a/b", Kind::Hdfs),
            ("hdfs://nn1:8020//a/b/", "hdfs://nn1:8020/a/b", Kind::Hdfs),
            ("hdfs://service", "hdfs://service/", Kind::Hdfs),
            ("s3://bucket/a/b/", "s3://bucket/a/b", Kind::S3),
            ("s3a://bucket/dt=2026-01-01", "s3://bucket/dt=2026-01-01", Kind::S3),
            ("/数据/日 表", "/数据/日 表", Kind::Local),
        ];
        for (written, canonical, kind) in table {
            let path = parse(written).unwrap();
            assert_eq!((path.as_str(), path.kind()), (canonical, kind));
            assert_eq!(
                Path::try_from(String::from(path.clone())).unwrap(),
                path,
                "the one form is a fixed point"
            );
        }
    }

    #[test]
    fn refused_path_names_field_value_and_rule() {
        let table = [
            ("", "must not be empty"),
            ("relative/path", "has to begin with"),
            ("ftp://x/y", "has to begin with"),
            ("file://host/x", "names a host"),
            ("/a/../b", "parts . and .."),
            ("/a/*/b", "patterns are not looked up"),
            ("/dt={{ day }}", "patterns are not looked up"),
            ("/a\u{0}b", "control characters"),
            ("hdfs://user@nn:8020/a", "names no name node"),
            ("hdfs://nn:0/a", "1 to 65535"),
            ("hdfs://nn:99999/a", "1 to 65535"),
            ("s3://bucket", "names a bucket but no key"),
            ("s3://Bucket/a", "its bucket has to be"),
            ("s3://bucket/a//b", "must not be empty"),
        ];
        for (written, rule) in table {
            let error = Path::parse("dependencies[1].path", written, Some("nn1:8020")).unwrap_err();
            assert_eq!((error.field.as_str(), error.value.as_str()), ("dependencies[1].path", written));
            assert!(error.rule.contains(rule), "{written}: {}", error.rule);
        }
        assert!(parse(&format!("/{}", "x".repeat(4_096))).unwrap_err().rule.contains("4096"));
        assert!(parse(&format!("s3://bucket/{}", "x".repeat(1_025))).unwrap_err().rule.contains("1024"));
        let bare = Path::parse("path", "hdfs:///a", None).unwrap_err();
        assert!(bare.rule.contains("hdfs.default_name_node"), "{}", bare.rule);
    }

    #[test]
    fn parts_of_a_path() {
        let table = [
            ("/a/b/c", "/a/b/c", Some(("/a/b", "c")), "/a/b"),
            ("/a", "/a", Some(("/", "a")), ""),
            ("/", "/", None, ""),
            ("hdfs://nn:1/a/b", "/a/b", Some(("/a", "b")), "hdfs://nn:1/a"),
            ("hdfs://nn:1/a", "/a", Some(("/", "a")), "hdfs://nn:1"),
            ("s3://bucket/a/b", "a/b", Some(("a", "b")), "s3://bucket/a"),
            ("s3://bucket/a", "a", Some(("", "a")), "s3://bucket/"),
        ];
        for (written, inside, entry, directory) in table {
            let path = parse(written).unwrap();
            assert_eq!((path.inside(), path.entry(), path.directory()), (inside, entry, directory));
        }
        assert_eq!(parse("s3://bucket/a").unwrap().authority(), Authority::S3("bucket".into()));
        assert_eq!(parse("hdfs:///a").unwrap().authority(), Authority::Hdfs("nn1:8020".into()));
        assert_eq!(parse("/a").unwrap().authority().to_string(), "file:///");
    }
}
