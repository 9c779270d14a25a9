//! As whom jobs run, and what does not hold because of it.

use nix::unistd::{Uid, User};
use tidemill_model::Account;

use crate::{Config, Error};

/// Refuses an account for jobs without one that cannot be had, and says at the start what jobs can read that they
/// should not.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let own = Uid::effective();
    if let Some(account) = &config.default_run_as {
        let user = User::from_name(account.as_str());
        let user =
            user.map_err(|error| refused(account, format!("cannot be looked up: {}", error.desc())))?;
        let user = user.ok_or_else(|| refused(account, "this host has no such account".to_owned()))?;
        if user.uid.is_root() {
            let rule = "it has to be another account than root, which reads every key; leave it out, and such jobs run \
                as the executor's own account";
            return Err(refused(account, rule.to_owned()));
        }
        if !own.is_root() && user.uid != own {
            let rule =
                format!("the executor runs as {} and has to be root to become another account", name(own));
            return Err(refused(account, rule));
        }
    }
    match what_does_not_hold(own, config.default_run_as.is_some()) {
        Some(warning) => tracing::warn!("{warning}"),
        None => {
            tracing::info!("jobs run as accounts of their own, and cannot read the executor's keys and data")
        }
    }
    Ok(())
}

/// One line for those who run it.
fn what_does_not_hold(own: Uid, has_default: bool) -> Option<String> {
    match (own.is_root(), has_default) {
        (true, true) => None,
        (true, false) => Some(
            "jobs without run_as run as root, and can read every key and all data of this host; name an account for \
             them with executor.default_run_as (docs/security.md)"
                .to_owned(),
        ),
        (false, _) => Some(format!(
            "jobs run as {}, the account of this process, and can read its keys and data; run it as root with \
             executor.default_run_as, or run executors apart, under another account and without admin.key \
             (docs/security.md)",
            name(own)
        )),
    }
}

fn name(uid: Uid) -> String {
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |user| format!("{} (uid {uid})", user.name))
}

fn refused(account: &Account, rule: String) -> Error {
    Error::Config { field: "default_run_as", value: account.to_string(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_says_what_does_not_hold() {
        let says = |uid: u32, has_default| what_does_not_hold(Uid::from_raw(uid), has_default);
        assert_eq!(says(0, true), None);
        assert!(says(0, false).unwrap().contains("run as root, and can read every key"));
        for has_default in [false, true] {
            let said = says(4_294_000_000, has_default).unwrap();
            assert!(said.starts_with("jobs run as uid 4294000000, the account of this process"), "{said}");
        }
    }
}
