//! What a key may: its rank, and how far it reaches.
//!
//! Every call declares what it needs ([`Needs`]), and that is looked at before its handler is reached. A handler that
//! writes needs a [`Right`] besides, which a [`Caller`] gives for a group or for the site and for nothing else; so no
//! handler can forget to ask. `docs/reference/rights.md` is made from what the calls declare.

use std::sync::{Arc, OnceLock};

use tidemill_model::{Account, Actor, RequestId, Role, Token};

use crate::Problem;
use crate::secret::fingerprint;

/// How far a key has to reach for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It shows what belongs to the whole site, to every key.
    Everybody,
    /// The group of what it is about; lists show what the key reaches.
    Groups,
    /// What the key itself asked for, else the whole site.
    Own,
    /// The whole site: the key is bound to no group.
    Site,
}

impl Reach {
    /// The word of the document and of the reference.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Reach::Everybody => "everybody",
            Reach::Groups => "group",
            Reach::Own => "own",
            Reach::Site => "site",
        }
    }

    /// For people.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Reach::Everybody => "It is of the whole site, and every key sees it.",
            Reach::Groups => "A key that is bound to groups has it for what is of those.",
            Reach::Own => "A key that is bound to groups has it for what it asked for itself.",
            Reach::Site => "A key that is bound to groups does not have it.",
        }
    }
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) role: Role,
    pub(crate) reach: Reach,
}

impl Needs {
    /// Whether the key may make the call at all. For which groups is for the handler, which knows what it is about.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), Problem> {
        caller.has_role(self.role)?;
        match self.reach {
            Reach::Site => caller.reaches_all(),
            Reach::Everybody | Reach::Groups | Reach::Own => Ok(()),
        }
    }
}

/// What a request asks for that has an id of the caller's own (API-4), as a fingerprint. Clones share the body, which comes
/// after its head.
#[derive(Debug, Clone)]
pub(crate) struct Asks {
    head: u64,
    body: Arc<OnceLock<u64>>,
}

impl Asks {
    pub(crate) fn new<'p>(head: impl IntoIterator<Item = &'p [u8]>) -> Self {
        Self { head: fingerprint(head), body: Arc::default() }
    }

    /// The body has come. There is one.
    pub(crate) fn with_body(&self, bytes: &[u8]) {
        self.body.get_or_init(|| fingerprint([bytes]));
    }

    fn fingerprint(&self) -> u64 {
        match self.body.get() {
            Some(body) => fingerprint([&self.head.to_be_bytes()[..], &body.to_be_bytes()]),
            None => self.head,
        }
    }
}

/// Who calls: a key that is good.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    app: Arc<str>,
    role: Role,
    /// The groups that it is bound to; empty: all.
    groups: Arc<[String]>,
    /// DSP-2: the accounts that jobs may run as which it applies.
    accounts: Arc<[Account]>,
    /// The person, as the application names them.
    user: Option<Arc<str>>,
    asks: Option<Asks>,
}

/// The right to one write: whose it is. There is one where a [`Caller`] was found to have it.
#[derive(Debug, Clone)]
pub(crate) struct Right {
    actor: Actor,
    asks: Option<Asks>,
}

impl Right {
    pub(crate) fn actor(&self) -> Actor {
        self.actor.clone()
    }

    /// Under a key that the caller chose for the request.
    pub(crate) fn request(&self, key: &str) -> RequestId {
        match &self.asks {
            Some(asks) => RequestId::of_client(&self.actor.app, key, asks.fingerprint()),
            None => RequestId::new(format!("{}:{key}", self.actor.app)),
        }
    }

    /// The program of a running attempt, for the command of its own that its key was found good for. Request ids count for
    /// one application each: of two attempts that choose the same one, each has its own. No application's name holds a
    /// colon.
    pub(crate) fn of_attempt(token: Token, asks: Asks) -> Self {
        Self { actor: Actor { app: format!("attempt:{token}").into(), user: None }, asks: Some(asks) }
    }
}

impl Caller {
    pub(crate) fn new(app: Arc<str>, role: Role, groups: Arc<[String]>, accounts: Arc<[Account]>) -> Self {
        Self { app, role, groups, accounts, user: None, asks: None }
    }

    /// In the name of this person.
    pub(crate) fn for_user(self, user: Option<Arc<str>>) -> Self {
        Self { user, ..self }
    }

    /// For a request that asks for this.
    pub(crate) fn asking(self, asks: Asks) -> Self {
        Self { asks: Some(asks), ..self }
    }

    pub(crate) fn asks(&self) -> Option<&Asks> {
        self.asks.as_ref()
    }

    pub(crate) fn app(&self) -> &Arc<str> {
        &self.app
    }

    /// As the tables name who requested something: application, or application/person.
    pub(crate) fn name(&self) -> String {
        match &self.user {
            Some(user) => format!("{}/{user}", self.app),
            None => self.app.to_string(),
        }
    }

    /// Who the person is, if the application names one.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    /// Its rank.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The groups that it is bound to; empty: all.
    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// DSP-2: the accounts that jobs may run as which it applies.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Whether it is bound to no group.
    pub(crate) fn is_of_site(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether it may manage keys: then it may see their hashes.
    pub(crate) fn manages_keys(&self) -> bool {
        self.role == Role::SuperAdministrator && self.is_of_site()
    }

    /// DSP-2: whether it may say what a job does that runs as this account.
    pub(crate) fn may_run_as(&self, account: &Account) -> bool {
        self.manages_keys() || self.accounts.contains(account)
    }

    /// Whether the key reaches the group at all.
    pub(crate) fn reaches(&self, group: &str) -> bool {
        self.is_of_site() || self.groups.iter().any(|bound| bound == group)
    }

    pub(crate) fn may_read(&self, group: &str) -> Result<(), Problem> {
        if self.reaches(group) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("{}; it does not reach group {group}", self.bound())))
    }

    /// Whether it reaches what is of no group, or of all.
    pub(crate) fn reaches_all(&self) -> Result<(), Problem> {
        if self.is_of_site() {
            return Ok(());
        }
        let detail = format!(
            "{}; this concerns the whole site, and needs a key that is bound to no group",
            self.bound()
        );
        Err(Problem::forbidden(detail))
    }

    fn bound(&self) -> String {
        format!("key {} is bound to {}", self.app, self.groups.join(", "))
    }

    fn has_role(&self, needed: Role) -> Result<(), Problem> {
        if self.role >= needed {
            return Ok(());
        }
        Err(Problem::forbidden(format!("key {} is a {}; this needs a {needed}", self.app, self.role)))
    }

    /// To submit to the group and act on its jobs, batches and workers.
    pub(crate) fn for_group(&self, group: &str) -> Result<Right, Problem> {
        self.for_groups([group])
    }

    /// To act on all of these groups together.
    pub(crate) fn for_groups<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> Result<Right, Problem> {
        self.has_role(Role::User)?;
        groups.into_iter().try_for_each(|group| self.may_read(group))?;
        Ok(self.right())
    }

    /// To act on what is of no group, or of all, with at least this rank.
    pub(crate) fn for_site(&self, needed: Role) -> Result<Right, Problem> {
        self.has_role(needed.max(Role::User))?;
        self.reaches_all()?;
        Ok(self.right())
    }

    /// To act on what is of this group; nothing: of every group, with at least this rank.
    pub(crate) fn for_group_or_site(&self, group: Option<&str>, needed: Role) -> Result<Right, Problem> {
        group.map_or_else(|| self.for_site(needed), |group| self.for_group(group))
    }

    fn right(&self) -> Right {
        let actor = Actor { app: Arc::clone(&self.app), user: self.user.clone() };
        Right { actor, asks: self.asks.clone() }
    }

    /// The group that a list is about: as asked for, or the only one that the key reaches. `None`: all.
    pub(crate) fn listed_group(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (asked, &self.groups[..]) {
            (Some(group), _) => self.may_read(&group).map(|()| Some(group)),
            (None, []) => Ok(None),
            (None, [group]) => Ok(Some(group.clone())),
            (None, groups) => {
                let rule =
                    format!("must name one of the groups that this key is bound to: {}", groups.join(", "));
                Err(Problem::field("group", "", rule))
            }
        }
    }
}
