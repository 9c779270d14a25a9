//! The first start: the administrator's key and one worker group, defined through the log like everything
//! else. Done again it changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tidemill_cli::{Done, Exit, Failure};
use tidemill_cluster::{SubmitRequest, Submitter, request_id};
use tidemill_log::Log;
use tidemill_model::{
    Actor, Answer, CatalogueCommand, Command, GroupName, GroupSettings, Outcome, Rejection, Reply, Role,
    ShardId,
};

use tidemill_snapshots::Snapshots;

use super::groups::{self, Group};
use crate::keys::{self, Keys};

/// An owner has to be found within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks whether it is worth to wait on.
const LOOK: Duration = Duration::from_millis(200);

/// What is said where the administrator's key is not among the keys, and is on record.
const LOST_ADMIN: &str = "warning: admin.key is not among the keys, and the log has an administrator already, whose secret \
                          nobody can draw again. Copy the file back, or define a key anew with the operator's secret: \
                          `tidemill key apply admin --role super_administrator --operator`";

/// What the first start found or made.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The group.
    pub(crate) group: Group,
    /// Partition and offset of the journal from which on the tables have it all.
    pub(crate) position: (u32, u64),
}

/// Makes sure that there is an administrator, and a group of this name with the key in `keys`.
/// While it waits, `goes_on` is asked whether that is worth it.
pub(crate) fn run(
    (log, snapshots): (&Arc<dyn Log>, Option<&Snapshots>),
    submitter: &Submitter,
    keys: &Keys,
    name: &GroupName,
    goes_on: &dyn Fn() -> Done,
) -> Done<Ready> {
    let worker_key = keys::public_half(&keys.group_private(name.as_str())?)?;
    let is_drawn = !keys.has_admin();
    let hash = keys.admin_hash()?;
    let admin = Command::Catalogue(CatalogueCommand::DefineKey {
        app: keys::ADMIN.to_owned(),
        hash: hash.clone(),
        role: Role::SuperAdministrator,
        groups: Vec::new(),
        run_as: BTreeSet::new(),
        may: BTreeSet::new(),
        department: None,
        first_only: true,
    });
    let defined = decide(submitter, admin, goes_on)?;
    let position = (defined.partition, defined.offset);
    match defined.outcome {
        // A file that opens nothing would only mislead. Of two starts at once both take the key that one of them drew.
        Outcome::Refused(Rejection::AlreadyThere { .. }) => {
            if is_drawn && groups::key_hash(&**log, keys::ADMIN)?.as_ref() != Some(&hash) {
                keys.discard_admin()?;
                tidemill_cli::output::note(LOST_ADMIN);
            }
        }
        outcome => accepted(outcome, "the administrator's key").map(drop)?,
    }
    if let Some(group) = groups::find(&**log, snapshots, name)? {
        return Ok(Ready { group: same_key(group, name, &worker_key)?, position });
    }
    let settings = GroupSettings::default();
    let define = Command::Catalogue(CatalogueCommand::DefineGroup {
        name: name.clone(),
        worker_key: worker_key.clone(),
        settings,
    });
    let defined = decide(submitter, define, goes_on)?;
    let position = (defined.partition, defined.offset);
    match accepted(defined.outcome, "the worker group")? {
        Some(Answer::Group { shard, .. }) => Ok(Ready { group: Group { shard, worker_key }, position }),
        answer => Err(Failure::new(
            Exit::Failure,
            format!("defining group {name} was answered by something else: {answer:?}"),
        )),
    }
}

/// The group, if its workers here can prove that they belong to it.
pub(crate) fn same_key(group: Group, name: &GroupName, worker_key: &str) -> Done<Group> {
    if group.worker_key == worker_key {
        return Ok(group);
    }
    Err(Failure::new(Exit::Refused, format!("the key of group {name} here is not the one on record"))
        .hint(format!("copy group-{name}.key from the keys of the process that defined the group")))
}

fn decide(submitter: &Submitter, command: Command, goes_on: &dyn Fn() -> Done) -> Done<Reply> {
    let (tell, told) = mpsc::sync_channel(1);
    let actor = Actor { app: "first-start".into(), user: None };
    let submit_request = SubmitRequest { shard: ShardId::CATALOGUE, request: request_id(), actor, command };
    submitter.submit_with(submit_request, Some(PATIENCE), move |result| {
        // The receiver is there until the outcome is.
        let _ = tell.send(result);
    });
    let reply = loop {
        match told.recv_timeout(LOOK) {
            Ok(reply) => break reply,
            Err(RecvTimeoutError::Timeout) => goes_on()?,
            Err(error @ RecvTimeoutError::Disconnected) => {
                return Err(Failure::caused("the first start got no outcome", &error));
            }
        }
    };
    reply.map_err(|error| {
        Failure::caused("the first start got no outcome", &error)
            .with_exit(Exit::OutcomeUnknown)
            .hint("an owner of the catalogue has to run: see the log lines above, and start again")
    })
}

fn accepted(outcome: Outcome, what: &str) -> Done<Option<Answer>> {
    match outcome {
        Outcome::Done => Ok(None),
        Outcome::Answered(answer) => Ok(Some(answer)),
        Outcome::Refused(rejection) => {
            Err(Failure::new(Exit::Refused, format!("{what} was refused: {rejection}")))
        }
        Outcome::Repeated | Outcome::Deferred => {
            Err(Failure::new(Exit::Failure, format!("{what} was answered without its answer")))
        }
    }
}
