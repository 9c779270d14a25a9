//! Passwords of people (API-5): hashed with argon2id, and looked at few at a time, for each look takes memory and a moment of a
//! processor.

use std::sync::{Arc, LazyLock};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tidemill_model::FieldError;
use tokio::sync::Semaphore;

use crate::Problem;

/// Characters of a password.
pub(crate) const MIN_CHARS: usize = 12;
pub(crate) const MAX_CHARS: usize = 200;
/// Looks at once, and others that wait for one.
const AT_ONCE: usize = 2;
const WAITING: usize = 32;

/// Of no password that anybody has: who is not there takes as long as who is.
static NOBODYS: LazyLock<Arc<str>> = LazyLock::new(|| hash("nobody's password").into());

fn hash(password: &str) -> String {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.expect("the default costs are good, and so is a salt of random bytes").to_string()
}

fn is_of(hash: &str, password: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// Whether one may have this password.
pub(crate) fn check(field: &str, password: &str, person: &str) -> Result<(), Problem> {
    let rule = if !(MIN_CHARS..=MAX_CHARS).contains(&password.chars().count()) {
        format!("must have {MIN_CHARS} to {MAX_CHARS} characters")
    } else if password.to_lowercase().contains(&person.to_lowercase()) {
        "must not contain the name of the person".to_owned()
    } else if password.chars().collect::<std::collections::BTreeSet<_>>().len() < 5 {
        "must have at least 5 different characters".to_owned()
    } else {
        return Ok(());
    };
    Err(Problem::fields(vec![FieldError::new(field, "(not shown)", rule)]))
}

/// The few places at which passwords are looked at.
pub(crate) struct Passwords {
    at_once: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            places: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        }
    }
}

impl Passwords {
    /// Whether this is the password of that hash; of nobody's it is not, and that takes as long.
    pub(crate) async fn fits(&self, hash: Option<Arc<str>>, password: String) -> Result<bool, Problem> {
        let is_there = hash.is_some();
        let hash = hash.unwrap_or_else(|| Arc::clone(&NOBODYS));
        Ok(self.work(move || is_of(&hash, &password)).await? && is_there)
    }

    /// What the journal keeps of a password.
    pub(crate) async fn hash(&self, password: String) -> Result<String, Problem> {
        self.work(move || hash(&password)).await
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let too_many = |_| Problem::overloaded("too many people sign in at once", 1);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(too_many)?;
        let turn = Arc::clone(&self.at_once).acquire_owned().await;
        let worked = tokio::task::spawn_blocking(move || {
            let _held = (place, turn);
            work()
        });
        worked.await.map_err(|_| Problem::internal("a look at a password ended unexpectedly"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: passwords are kept as argon2id with a salt of their own.
    #[tokio::test]
    async fn password_is_good_for_its_hash_alone() {
        let passwords = Passwords::default();
        let hash: Arc<str> = passwords.hash("correct horse battery".to_owned()).await.unwrap().into();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && hash.len() < 200, "{hash}");
        let other = passwords.hash("correct horse battery".to_owned()).await.unwrap();
        assert_ne!(*hash, *other);
        for (known, shown, fits) in [
            (Some(&hash), "correct horse battery", true),
            (Some(&hash), "correct horse battery ", false),
            (Some(&hash), "", false),
            (None, "nobody's password", false),
        ] {
            assert_eq!(passwords.fits(known.cloned(), shown.to_owned()).await.unwrap(), fits, "{shown:?}");
        }
        assert!(!passwords.fits(Some("no hash".into()), "x".to_owned()).await.unwrap());
    }

    #[test]
    fn weak_passwords_are_refused_with_the_rule() {
        for bad in ["short", "aaaaaaaaaaaaaaaa", "I am ANN and so long", &"x1y2z".repeat(50)] {
            assert!(check("password", bad, "ann").is_err(), "{bad}");
        }
        assert!(check("password", "correct horse battery", "ann").is_ok());
    }
}
