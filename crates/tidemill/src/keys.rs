//! Keys in the data directory, or in one of their own: drawn once, readable by this user only, never printed.
//!
//! ```text
//!  admin.key         APP:SECRET of the administrator, for the client commands
//!  operator.key      the secret of those who operate while no application key is known (standalone)
//!  internal.key      the secret that opens owners' live state
//!  logs.key          the secret that opens executors' logs
//!  group-NAME.key    a worker group's Ed25519 private key, 64 hexadecimal digits
//! ```

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use tidemill_cli::secret::{self, draw, hex};
use tidemill_cli::{Done, Failure, KEY_FILE, OPERATOR_FILE, files};

use crate::privacy;

/// Name of the application that the first start defines.
pub(crate) const ADMIN: &str = "admin";

/// The keys of one data directory.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    dir: PathBuf,
}

impl Keys {
    /// Makes the directory where it does not exist.
    pub(crate) fn open(dir: &Path) -> Done<Self> {
        privacy::make_dir(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// The secret of the live port, drawn where there is none.
    pub(crate) fn internal(&self) -> Done<String> {
        self.drawn("internal.key", draw::<32>)
    }

    /// The secret of the executors' logs, drawn where there is none.
    pub(crate) fn logs(&self) -> Done<String> {
        self.drawn("logs.key", draw::<32>)
    }

    /// The operator's secret, drawn where there is none.
    pub(crate) fn operator(&self) -> Done<String> {
        self.drawn(OPERATOR_FILE, draw::<32>)
    }

    /// Whether the administrator's key is there.
    pub(crate) fn has_admin(&self) -> bool {
        self.dir.join(KEY_FILE).exists()
    }

    /// Takes away a key of the administrator that was drawn and is not on record.
    pub(crate) fn discard_admin(&self) -> Done {
        let path = self.dir.join(KEY_FILE);
        fs::remove_file(&path)
            .map_err(|error| Failure::caused(format!("cannot remove {}", path.display()), &error))
    }

    /// SHA-256 of the administrator's secret, in hexadecimal; the secret itself stays in its file.
    pub(crate) fn admin_hash(&self) -> Done<String> {
        let text = self.drawn(KEY_FILE, || format!("{ADMIN}:{}", draw::<24>()))?;
        let secret = text.split_once(':').map_or(text.as_str(), |(_, secret)| secret);
        Ok(hash(secret))
    }

    /// The private key of a group, drawn where there is none.
    pub(crate) fn group_private(&self, group: &str) -> Done<String> {
        self.drawn(&group_file(group), draw::<32>)
    }

    /// The private key of a group, where it is there.
    pub(crate) fn existing_group_private(&self, group: &str) -> Done<String> {
        let path = self.dir.join(group_file(group));
        files::text(&path, files::MAX_SETTINGS_BYTES).map(|text| text.trim().to_owned()).map_err(|error| {
            Failure::caused(format!("cannot read the group's key {}", path.display()), &error).hint(format!(
                "copy {} from the keys of the process that defined the group (mode 0600), or name their directory with keys_dir",
                group_file(group)
            ))
        })
    }

    fn drawn(&self, name: &str, draw: impl FnOnce() -> String) -> Done<String> {
        let path = self.dir.join(name);
        match files::text(&path, files::MAX_SETTINGS_BYTES) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::caused(format!("cannot read {}", path.display()), &error)),
        }
        // Of several processes that share the directory one draws, and all take what it drew.
        let mine = self.dir.join(format!("{name}.{}", secret::draw::<8>()));
        write_private(&mine, &format!("{}\n", draw()))?;
        let linked = fs::hard_link(&mine, &path);
        let removed = fs::remove_file(&mine);
        let cannot = |error| Failure::caused(format!("cannot write {}", path.display()), &error);
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(cannot(error)),
            Ok(()) | Err(_) => removed.map_err(cannot)?,
        }
        files::text(&path, files::MAX_SETTINGS_BYTES).map(|text| text.trim().to_owned()).map_err(cannot)
    }
}

fn group_file(group: &str) -> String {
    format!("group-{group}.key")
}

/// Writes a file that only this user reads: whole or not at all, also if the power fails.
pub(crate) fn write_private(path: &Path, text: &str) -> Done {
    let write = || {
        let mut next = path.as_os_str().to_owned();
        next.push(".new");
        let next = PathBuf::from(next);
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(dir)?.sync_all()
    };
    write()
        .map_err(|error: std::io::Error| Failure::caused(format!("cannot write {}", path.display()), &error))
}

/// SHA-256 in hexadecimal: how the secret of an application is kept on record.
pub(crate) fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// The public half of a group's private key, both in hexadecimal.
pub(crate) fn public_half(private: &str) -> Done<String> {
    let bad = || {
        Failure::bad_input("a group's private key must be 64 hexadecimal digits")
            .hint("`tidemill group apply NAME` draws a new one")
    };
    let mut seed = [0_u8; 32];
    if private.len() != 64 || !private.is_ascii() {
        return Err(bad());
    }
    for (index, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&private[index * 2..index * 2 + 2], 16).map_err(|_| bad())?;
    }
    Ok(hex(SigningKey::from_bytes(&seed).verifying_key().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_drawn_once_and_readable_by_the_user_only() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(&dir.path().join("data")).unwrap();
        assert_eq!(
            (keys.logs().unwrap(), keys.operator().unwrap()),
            (keys.logs().unwrap(), keys.operator().unwrap())
        );
        let first = (keys.internal().unwrap(), keys.admin_hash().unwrap(), keys.group_private("g").unwrap());
        let again =
            (keys.internal().unwrap(), keys.admin_hash().unwrap(), keys.existing_group_private("g").unwrap());
        assert_eq!(first, again);
        for name in ["internal.key", "logs.key", OPERATOR_FILE, KEY_FILE, "group-g.key"] {
            let mode = fs::metadata(dir.path().join("data").join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let admin = fs::read_to_string(dir.path().join("data").join(KEY_FILE)).unwrap();
        assert_eq!(hash(admin.trim().strip_prefix("admin:").unwrap()), first.1);
    }

    #[test]
    fn processes_that_start_at_once_draw_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(dir.path()).unwrap();
        let drawn = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| keys.internal().unwrap())).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(drawn.len(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn missing_group_key_says_what_to_copy() {
        let dir = tempfile::tempdir().unwrap();
        let failure = Keys::open(dir.path()).unwrap().existing_group_private("etl").unwrap_err();
        assert!(failure.hint.unwrap().contains("group-etl.key"));
    }

    /// RFC 8032, 7.1, test 1.
    #[test]
    fn public_half_is_that_of_ed25519() {
        let private = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(public_half(private).unwrap(), public);
        assert!(public_half("zz").is_err());
        assert!(public_half(&"zz".repeat(32)).is_err());
    }
}
