//! What the agent does: looks for new work while the job runs, and sees to the end of all of it afterwards.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;

use nix::unistd::User;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{getpid, set_child_subreaper};
use tidemill_model::{ExternalWorkId, bounds};

use super::command::{self, timespec};
use super::files::Files;
use super::work::Work;
use super::{Ending, LATE, Said, say};
use crate::attempt_dir::{AttemptDir, ExternalRecord, ShimExternal, ShimSpec};
use crate::external_work::{ExternalState, ExternalSuccess, filled};
use crate::machine::boottime_ms;
use crate::stderr;

/// From one look at the files of a job to the next, milliseconds.
const FILES_MS: u64 = 500;
/// Before the first look with `list`, milliseconds; each further pause is twice as long.
const FIRST_LIST_MS: u64 = 2_000;
/// The pauses between two rounds of asking and ending, milliseconds.
const ROUND_MS: std::ops::RangeInclusive<u64> = 200..=15_000;
/// Between two tries to take in all of what earlier attempts have started, milliseconds.
const CLEAR_AGAIN_MS: u64 = 15_000;
/// Different complaints of one agent.
const COMPLAINTS: usize = 100;

/// What a look with `list` has found.
#[derive(Default)]
struct Listed {
    ids: BTreeSet<ExternalWorkId>,
    /// It names more, which is not known.
    is_cut: bool,
}

pub(super) struct Agent<'a> {
    spec: &'a ShimSpec,
    external: &'a ShimExternal,
    user: Option<&'a User>,
    shim: &'a UnixStream,
    files: Files<'a>,
    work: Work,
    /// Those that the shim was told of.
    told: BTreeSet<ExternalWorkId>,
    ending: Option<Ending>,
    /// A submission may still be on its way.
    may_be_late: bool,
    orders: Vec<u8>,
    /// Output of the job has named work that there was no room for.
    has_dropped: bool,
    /// What was said of commands that failed.
    complaints: BTreeSet<String>,
}

impl<'a> Agent<'a> {
    pub(super) fn new(
        dir: &AttemptDir,
        spec: &'a ShimSpec,
        external: &'a ShimExternal,
        user: Option<&'a User>,
        shim: &'a UnixStream,
    ) -> Self {
        let files = Files::new(dir, &external.config);
        Self {
            spec,
            external,
            user,
            shim,
            files,
            work: Work::default(),
            told: BTreeSet::new(),
            ending: None,
            may_be_late: false,
            orders: Vec::new(),
            has_dropped: false,
            complaints: BTreeSet::new(),
        }
    }

    /// Until the shim has heard all. The error says that the shim is gone.
    pub(super) fn run(mut self) -> io::Result<()> {
        set_child_subreaper(Some(getpid()))?;
        let named = nix::sys::prctl::set_name(c"tidemill-agent");
        debug_assert!(named.is_ok(), "the name is short");
        if !self.external.earlier.is_empty() {
            self.clear()?;
            self.ending = None;
            say(self.shim, &Said::Cleared)?;
        }
        self.watch()?;
        let record = self.settle()?;
        say(self.shim, &Said::Ended(Box::new(record)))?;
        loop {
            self.pause(60_000)?;
        }
    }

    /// Ends what earlier attempts have started. Nothing of this one has begun.
    fn clear(&mut self) -> io::Result<()> {
        let earlier = &self.external.earlier;
        let tags: Vec<&str> = earlier.iter().map(|earlier| earlier.tag.as_str()).collect();
        let ids = earlier.iter().flat_map(|earlier| earlier.ids.iter().cloned());
        let mut work = Work::default();
        let mut is_known = work.add(ids);
        if self.external.config.list.is_empty() && work.len() == 0 {
            return Ok(());
        }
        self.ending = Some(Ending::Kill);
        while !(self.end(&tags, &mut work)? && is_known) {
            self.complain("earlier attempts have started more than can be followed");
            self.pause(CLEAR_AGAIN_MS)?;
            is_known = work.add(earlier.iter().flat_map(|earlier| earlier.ids.iter().cloned()));
        }
        Ok(())
    }

    /// Looks for new work until the shim says that no process of the job is left.
    fn watch(&mut self) -> io::Result<()> {
        let look_ms = self.external.config.look_ms;
        let mut list_ms = FIRST_LIST_MS.min(look_ms);
        let mut list_at_ms = boottime_ms().saturating_add(list_ms);
        while self.ending.is_none() {
            let until_list_ms = list_at_ms.saturating_sub(boottime_ms());
            self.pause(FILES_MS.min(until_list_ms.max(1)))?;
            let mut work = std::mem::take(&mut self.work);
            self.has_dropped |= !work.add(self.files.printed());
            // What is left out is there at the end, too.
            work.add(self.files.reported().ids);
            if boottime_ms() >= list_at_ms && self.ending.is_none() {
                work.add(self.list(&[&self.external.tag]).unwrap_or_default().ids);
                list_ms = list_ms.saturating_mul(2).min(look_ms);
                list_at_ms = boottime_ms().saturating_add(list_ms);
            }
            self.tell_found(&work)?;
            self.work = work;
        }
        Ok(())
    }

    /// No process of the job is left: waits for the end of what runs elsewhere, or brings it about.
    fn settle(&mut self) -> io::Result<ExternalRecord> {
        let mut work = std::mem::take(&mut self.work);
        self.has_dropped |= !work.add(self.files.last_printed());
        let is_known = self.end(&[&self.external.tag], &mut work)?;
        let decides = self.external.config.success == ExternalSuccess::FinalState;
        let unconfirmed = !is_known || self.has_dropped;
        Ok(ExternalRecord { work: work.into_states(), unconfirmed, decides })
    }

    /// Returns once all is known to have ended: `list` has named nothing else, and each id has ended by the word of `state`. Where
    /// a submission may have been on its way, that has to be so twice. What is gone is asked for in every
    /// round: a cluster may know late, or again, what it did not know before. Says whether that is all: there may be more than can be
    /// taken in.
    fn end(&mut self, tags: &[&str], work: &mut Work) -> io::Result<bool> {
        let is_own = *tags == [self.external.tag.as_str()];
        let mut pause_ms = *ROUND_MS.start();
        let mut quiet = 0;
        loop {
            let before = work.len();
            let listed = self.list(tags);
            let is_listed = listed.is_some();
            let Listed { ids: listed, mut is_cut } = listed.unwrap_or_default();
            let mut has_room = work.add(listed.iter().cloned());
            if is_own {
                let report = self.files.reported();
                has_room &= work.add(report.ids);
                is_cut |= !report.is_whole;
                self.tell_found(work)?;
            }
            let has_ended = self.ask_all(work, &listed);
            if has_ended && !has_room && !work.is_full() {
                // What has ended has made room.
                continue;
            }
            let all_ended = has_ended && is_listed;
            quiet = if all_ended && work.len() == before { quiet + 1 } else { 0 };
            let has_to_be_quiet = self.may_be_late || self.ending == Some(Ending::Kill);
            if all_ended && (!has_to_be_quiet || quiet >= 2) {
                return Ok(has_room && !is_cut);
            }
            if all_ended {
                self.pause(self.external.config.settle_ms)?;
                continue;
            }
            if self.ending != Some(Ending::Settle) {
                self.kill_all(work);
            }
            self.pause(pause_ms)?;
            pause_ms = (pause_ms * 2).min(*ROUND_MS.end());
        }
    }

    /// What carries a tag, where that is known.
    fn list(&mut self, tags: &[&str]) -> Option<Listed> {
        let config = &self.external.config;
        let mut listed = Listed::default();
        if config.list.is_empty() {
            return Some(listed);
        }
        for tag in tags {
            let failed = match self.run_command(&filled(&config.list, "{tag}", tag)) {
                Ok(printed) if printed.is_success => {
                    listed.ids.extend(config.ids_in(&printed.stdout));
                    listed.is_cut |= printed.is_cut;
                    continue;
                }
                Ok(printed) => printed.reason(),
                Err(why) => why,
            };
            self.complain(&failed);
            return None;
        }
        Some(listed)
    }

    /// Asks for all that is not known to have ended. Says whether nothing is left. What was just listed is not gone.
    fn ask_all(&mut self, work: &mut Work, listed: &BTreeSet<ExternalWorkId>) -> bool {
        work.ask(|id| {
            let state = self.ask(id);
            let is_wrong = state == Some(ExternalState::Gone) && listed.contains(id);
            if is_wrong {
                self.complain(&format!("`list` names {id}, and `state` says that it is gone"));
            }
            state.filter(|_| !is_wrong)
        })
    }

    fn ask(&mut self, id: &ExternalWorkId) -> Option<ExternalState> {
        let config = &self.external.config;
        match self.run_command(&filled(&config.state, "{id}", id.as_str())) {
            Ok(printed) if printed.is_success => config.state_in(&printed.stdout),
            Ok(printed) if config.is_gone(&printed.stdout) || config.is_gone(&printed.stderr) => {
                Some(ExternalState::Gone)
            }
            Ok(printed) => {
                self.complain(&printed.reason());
                None
            }
            Err(why) => {
                self.complain(&why);
                None
            }
        }
    }

    /// What comes of it, `state` says.
    fn kill_all(&mut self, work: &Work) {
        for id in work.living() {
            let failed = match self.run_command(&filled(&self.external.config.kill, "{id}", id.as_str())) {
                Ok(printed) if printed.is_success => continue,
                Ok(printed) => printed.reason(),
                Err(why) => why,
            };
            self.complain(&format!("`kill` of {id} has failed: {failed}"));
        }
    }

    fn run_command(&self, argv: &[String]) -> Result<command::Printed, String> {
        command::run(argv, (self.spec, self.user), self.external.config.timeout_ms)
    }

    /// For the log of the worker; the same once.
    fn complain(&mut self, why: &str) {
        if self.complaints.len() < COMPLAINTS && self.complaints.insert(why.to_owned()) {
            stderr::say(format_args!("tidemill shim: external work of {}: {why}", self.external.tag));
        }
    }

    fn tell_found(&mut self, work: &Work) -> io::Result<()> {
        let room = bounds::EXTERNAL_WORK.saturating_sub(self.told.len());
        let new = work.ids().filter(|id| !self.told.contains(*id)).take(room);
        let new: Vec<ExternalWorkId> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.told.extend(new.iter().cloned());
        say(self.shim, &Said::Found(new))
    }

    /// Waits so long, or until the shim wants something else.
    fn pause(&mut self, ms: u64) -> io::Result<()> {
        let until_ms = boottime_ms().saturating_add(ms);
        loop {
            let left_ms = until_ms.saturating_sub(boottime_ms());
            let mut fds = [PollFd::new(self.shim, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left_ms))) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if self.hear()? {
                return Ok(());
            }
        }
    }

    /// Whether there was an order.
    fn hear(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 64];
        let count = rustix::io::read(self.shim, &mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.orders.extend_from_slice(&chunk[..count]);
        let mut has_heard = false;
        while let Some(end) = self.orders.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.orders.drain(..=end).collect();
            let word = String::from_utf8_lossy(&line);
            self.may_be_late |= word.trim() == LATE;
            let all = [Ending::Settle, Ending::End, Ending::Kill];
            if let Some(ending) = all.into_iter().find(|ending| ending.as_str() == word.trim()) {
                self.ending = self.ending.max(Some(ending));
                has_heard = true;
            }
        }
        Ok(has_heard)
    }
}
