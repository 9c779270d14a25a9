//! What the claims mean here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidemill_model::{DepartmentName, PersonName, Role, bounds};

use crate::claims::{Said, texts};
use crate::{Refusal, Settings};

/// Who has signed in, and what the provider says of this person now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// The provider's own name of the person (`sub`): never given to somebody else, never changed.
    pub subject: String,
    /// The name in the directory.
    pub name: PersonName,
    /// The mail address; `None`: the provider says none that the directory could keep, so what it has stays.
    pub mail: Option<String>,
    /// The role; `None`: the provider does not say, so what the directory has stays.
    pub role: Option<Admission>,
    /// The departments; `None`: the provider does not say, so what the directory has stays. Empty: of none.
    pub departments: Option<BTreeSet<DepartmentName>>,
}

/// What the claim of the role says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The person signs in with this role: the highest that a value gives.
    As(Role),
    /// No value gives a role: the person may not sign in.
    Denied,
}

impl SignedIn {
    pub(crate) fn derive(settings: &Settings, subject: String, said: &Said) -> Result<Self, Refusal> {
        let value = |claim: &Option<String>| said.value(claim.as_deref()?);
        let departments =
            value(&settings.department_claim).map(|value| departments(value, &settings.departments));
        if let Some(count) = departments.as_ref().map(BTreeSet::len)
            && count > bounds::PERSON_DEPARTMENTS
        {
            return Err(Refusal::Departments { count });
        }
        Ok(Self {
            subject,
            name: name(&settings.name_claim, said)?,
            mail: said.text(&settings.mail_claim).filter(|text| is_mail(text)).map(str::to_owned),
            role: value(&settings.role_claim).map(|value| admission(value, &settings.roles)),
            departments,
        })
    }
}

/// The highest role of those that the values give.
fn admission(value: &Value, roles: &BTreeMap<String, Role>) -> Admission {
    let highest = texts(value).into_iter().filter_map(|text| roles.get(text)).max();
    highest.map_or(Admission::Denied, |role| Admission::As(*role))
}

fn departments(value: &Value, departments: &BTreeMap<String, DepartmentName>) -> BTreeSet<DepartmentName> {
    texts(value).into_iter().filter_map(|text| departments.get(text)).cloned().collect()
}

fn name(claim: &str, said: &Said) -> Result<PersonName, Refusal> {
    let (value, answer) = said.find(claim).ok_or_else(|| Refusal::NoName { claim: claim.to_owned() })?;
    let text = value.as_str().ok_or_else(|| Refusal::NoName { claim: claim.to_owned() })?;
    // Whoever may write any address there could otherwise sign in as its owner.
    let verified = answer.get("email_verified");
    if claim == "email" && verified.is_some_and(|it| *it == Value::Bool(false) || *it == "false") {
        return Err(Refusal::NameUnverified);
    }
    PersonName::try_from(text).map_err(|source| Refusal::Name { claim: claim.to_owned(), source })
}

/// As [`bounds::MAIL_PATTERN`] says.
fn is_mail(text: &str) -> bool {
    let fits = |c: char| c != ' ' && !c.is_control() && !matches!(c, '@' | '<' | '>' | ',' | ';' | ':');
    let is_part = |part: &str| !part.is_empty() && part.chars().all(fits);
    text.len() <= bounds::MAIL_BYTES
        && text.split_once('@').is_some_and(|(name, host)| is_part(name) && is_part(host))
}

#[cfg(test)]
mod tests;
