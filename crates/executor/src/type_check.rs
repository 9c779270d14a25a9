//! JOB-2: which types of jobs this worker can run, looked at once when it starts: whether the programs of a type are there, and its
//! jobs' account may run them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::{Gid, Uid, User, getgrouplist, getgroups};
use tidemill_model::{JobType, TypeStatus};

use crate::{Config, Error, TypeConfig, environment, types};

/// Who runs the programs of jobs that name no account.
struct Who {
    uid: Uid,
    groups: Vec<Gid>,
    /// For people.
    name: Option<String>,
}

impl Who {
    fn of(config: &Config) -> Self {
        let user =
            config.default_run_as.as_ref().and_then(|name| User::from_name(name.as_str()).ok().flatten());
        let Some(user) = user else {
            let mut groups = getgroups().unwrap_or_default();
            groups.push(Gid::effective());
            return Self { uid: Uid::effective(), groups, name: None };
        };
        let name = std::ffi::CString::new(user.name.as_str()).ok();
        let mut groups = name.and_then(|name| getgrouplist(&name, user.gid).ok()).unwrap_or_default();
        groups.push(user.gid);
        Self { uid: user.uid, groups, name: Some(user.name) }
    }

    fn may_run(&self, file: &fs::Metadata) -> bool {
        let bits = if self.uid.is_root() {
            0o111
        } else if file.uid() == self.uid.as_raw() {
            0o100
        } else if self.groups.iter().any(|group| group.as_raw() == file.gid()) {
            0o010
        } else {
            0o001
        };
        file.is_file() && file.mode() & bits != 0
    }
}

/// What becomes of each type that is configured. One that fails has no slots.
pub(crate) fn look(config: &Config) -> BTreeMap<JobType, TypeStatus> {
    let who = Who::of(config);
    let status_of = |name: &JobType, of: Option<&TypeConfig>| {
        let slots = config.slots.get(name).copied().unwrap_or(0);
        let problem = of.and_then(|of| problem(of, &who));
        let problem = problem.or_else(|| (slots == 0).then(|| "no slots of it are configured".to_owned()));
        TypeStatus { slots: if problem.is_some() { 0 } else { slots }, problem }
    };
    let types = config.all_types();
    let mut all: BTreeMap<JobType, TypeStatus> =
        types.iter().map(|(name, of)| (name.clone(), status_of(name, Some(of)))).collect();
    let noop = config.slots.keys().filter(|name| types::is_noop(name));
    all.extend(noop.map(|name| (name.clone(), status_of(name, None))));
    all
}

/// The slots of those that can be run. The error names all that cannot.
pub(crate) fn slots(types: &BTreeMap<JobType, TypeStatus>) -> Result<BTreeMap<JobType, u32>, Error> {
    let runs = types.iter().filter(|(_, status)| status.slots > 0);
    let slots: BTreeMap<JobType, u32> = runs.map(|(name, status)| (name.clone(), status.slots)).collect();
    if !slots.is_empty() {
        return Ok(slots);
    }
    let said =
        |(name, status): (&JobType, &TypeStatus)| Some(format!("{name}: {}", status.problem.as_deref()?));
    let value = types.iter().filter_map(said).collect::<Vec<_>>().join("; ");
    Err(Error::Config { field: "slots", value, rule: "no type of job can be run here".to_owned() })
}

fn problem(of: &TypeConfig, who: &Who) -> Option<String> {
    let path = of.env.get("PATH").cloned().or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
    let own = of.command.iter().take(1).map(String::as_str);
    let found = own.map(|program| (program, "")).chain(
        of.external_work
            .iter()
            .flat_map(|external| external.programs())
            .map(|program| (program, ", which looks after its external work,")),
    );
    found.into_iter().find_map(|(program, what)| missing(program, what, &path, who))
}

/// Why a program cannot be run; for people. One whose place depends on the job cannot be looked at.
fn missing(program: &str, what: &str, path: &str, who: &Who) -> Option<String> {
    if program.contains('{') || program.contains('/') && !program.starts_with('/') {
        return None;
    }
    let places = environment::places(program, path);
    let found: Vec<(&Path, fs::Metadata)> =
        places.iter().filter_map(|place| Some((place.as_path(), fs::metadata(place).ok()?))).collect();
    if found.iter().any(|(_, file)| who.may_run(file)) {
        return None;
    }
    Some(match (found.first(), &who.name) {
        (Some((place, _)), Some(name)) => {
            format!("{}{what} cannot be executed by account {name}", place.display())
        }
        (Some((place, _)), None) => format!("{}{what} cannot be executed", place.display()),
        (None, _) if program.contains('/') => format!("{program}{what} is not there"),
        (None, _) => format!("{program}{what} is not in PATH"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_work::{ExternalSuccess, ExternalWorkConfig};

    fn config(types: serde_json::Value, slots: serde_json::Value) -> Config {
        serde_json::from_value(serde_json::json!({
            "group": "g", "shard": 1, "data_dir": "/tmp/x", "slots": slots, "types": types,
            "logs_key": "k".repeat(16), "worker_private_key": "0f".repeat(32),
        }))
        .unwrap()
    }

    fn name(of: &str) -> JobType {
        JobType::try_from(of).unwrap()
    }

    /// JOB-2: a type whose program is not there, or cannot be executed, has no slots and says why; the others have theirs.
    #[test]
    fn types_without_their_programs_have_no_slots_and_say_why() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain").to_string_lossy().into_owned();
        fs::write(&plain, "x").unwrap();
        let types = serde_json::json!({
            "absent": {"command": ["/no/such/program"]},
            "lost": {"command": ["no-such-program"]},
            "plain": {"command": [plain]},
            "own": {"command": ["{script}"]},
        });
        let slots_of =
            serde_json::json!({"shell": 2, "absent": 1, "lost": 1, "plain": 1, "own": 3, "noop": 4});
        let types = look(&config(types, slots_of));
        let problem = |of: &str| types[&name(of)].problem.clone().unwrap();
        assert_eq!(problem("absent"), "/no/such/program is not there");
        assert_eq!(problem("lost"), "no-such-program is not in PATH");
        assert_eq!(problem("plain"), format!("{plain} cannot be executed"));
        assert_eq!(types[&name("own")], TypeStatus { slots: 3, problem: None });
        let slots = slots(&types).unwrap();
        assert_eq!(slots, BTreeMap::from([(name("noop"), 4), (name("own"), 3), (name("shell"), 2)]));
    }

    /// JOB-2, EXE-13: a type whose external work could not be ended is not run.
    #[test]
    fn type_is_not_run_without_the_commands_that_end_its_external_work() {
        let mut yarn = ExternalWorkConfig::yarn(ExternalSuccess::ExitCode);
        yarn.kill[0] = "no-such-yarn".to_owned();
        (yarn.list[0], yarn.state[0]) = ("sh".to_owned(), "sh".to_owned());
        let mut shell = types::defaults().remove(&name("shell")).unwrap();
        shell.external_work = Some(Box::new(yarn));
        let types = serde_json::json!({"shell": shell});
        let types = look(&config(types, serde_json::json!({"shell": 2})));
        let problem = types[&name("shell")].problem.clone().unwrap();
        assert_eq!(problem, "no-such-yarn, which looks after its external work, is not in PATH");
        let refused = slots(&types).unwrap_err().to_string();
        assert!(refused.contains("shell: no-such-yarn"), "{refused}");
    }
}
