//! What a person and a department look like, whoever else is there.

use std::collections::BTreeSet;

use tidemill_calendar::check_rota;
use tidemill_model::{Department, DirectoryChange, FieldError, Grant, GrantOn, Person, Rota, bounds};

use crate::catalogue::{check_bytes, check_count};

/// A rota, as JSON.
const ROTA_BYTES: usize = 32 * 1024;

/// The form of what a change names.
pub(super) fn check(change: &DirectoryChange) -> Result<(), FieldError> {
    match change {
        DirectoryChange::Department(department) => {
            check_department(department).map_err(|error| error.within("department"))
        }
        DirectoryChange::Person(person) => check_person(person).map_err(|error| error.within("person")),
        // Names are names.
        DirectoryChange::DeleteDepartment { .. } | DirectoryChange::DeletePerson { .. } => Ok(()),
    }
}

fn check_department(department: &Department) -> Result<(), FieldError> {
    check_text("title", &department.title)?;
    check_grants(&department.grants)?;
    let Some(rota) = &department.on_call else { return Ok(()) };
    check_on_call(rota).map_err(|error| error.within("on_call"))
}

fn check_on_call(rota: &Rota) -> Result<(), FieldError> {
    check_rota(rota)?;
    let bytes = serde_json::to_vec(rota).expect("a rota is plain data with string keys").len();
    if bytes > ROTA_BYTES {
        let rule = format!(
            "are {bytes} bytes of JSON with the rest of the rota, which may be {ROTA_BYTES}; take some out"
        );
        return Err(FieldError::new("turns", rota.turns.len(), rule));
    }
    Ok(())
}

fn check_person(person: &Person) -> Result<(), FieldError> {
    check_text("full_name", &person.full_name)?;
    if let Some(mail) = &person.mail {
        check_bytes("mail", mail, bounds::MAIL_BYTES)?;
        if !is_mail(mail) {
            let rule = "must be one address, such as ada@example.org; leave it out for none";
            return Err(FieldError::new("mail", mail, rule));
        }
    }
    if let Some(phone) = person.phone.as_ref().filter(|phone| !is_phone(phone)) {
        let rule = "must be + and 5 to 15 digits, the country first and without a leading 0, such as +4930123456; leave it \
                    out for none";
        return Err(FieldError::new("phone", phone, rule));
    }
    check_count("departments", person.departments.len(), bounds::PERSON_DEPARTMENTS, " departments")?;
    let mut seen = BTreeSet::new();
    for (index, department) in person.departments.iter().enumerate() {
        if !seen.insert(department) {
            let rule = "stands twice among the departments; leave one out";
            return Err(FieldError::new(format!("departments[{index}]"), department, rule));
        }
    }
    check_grants(&person.grants)?;
    if person.enabled
        && let Some(successor) = &person.successor
    {
        let rule = "is for a person who is disabled; leave it out, or disable the person";
        return Err(FieldError::new("successor", successor, rule));
    }
    if person.successor.as_ref() == Some(&person.name) {
        let rule = "is the person; name somebody else";
        return Err(FieldError::new("successor", &person.name, rule));
    }
    Ok(())
}

fn check_grants(grants: &[Grant]) -> Result<(), FieldError> {
    check_count("grants", grants.len(), bounds::GRANTS, " grants")?;
    let mut on = BTreeSet::new();
    for (index, grant) in grants.iter().enumerate() {
        check_grant(grant).map_err(|error| error.within(&format!("grants[{index}]")))?;
        if !on.insert(&grant.on) {
            let rule = "is on the same as another grant; make one of them";
            return Err(FieldError::new(format!("grants[{index}].on"), what(&grant.on), rule));
        }
    }
    Ok(())
}

fn check_grant(grant: &Grant) -> Result<(), FieldError> {
    let rule = match &grant.on {
        GrantOn::Group(_) => None,
        GrantOn::Job(name) => {
            let is_path =
                name.split_once('/').is_some_and(|(group, job)| !group.is_empty() && !job.is_empty());
            let most = bounds::JOB_PATH_BYTES;
            (!is_path || name.len() > most)
                .then(|| format!("must be group/name, the names of a job, of at most {most} bytes"))
        }
        GrantOn::BusinessType(name) => {
            let most = bounds::BUSINESS_NAME_CHARS;
            (!(1..=most).contains(&name.chars().count()))
                .then(|| format!("must be a business type of 1 to {most} characters"))
        }
    };
    if let Some(rule) = rule {
        return Err(FieldError::new("on", what(&grant.on), rule));
    }
    if grant.may.is_empty() {
        return Err(FieldError::new("may", "", "grants nothing; name what is granted, such as view"));
    }
    match grant.may.iter().find(|of| !of.can_be_granted()) {
        Some(of) => {
            let rule = format!("is of the whole site, and comes with the role {} alone", of.role());
            Err(FieldError::new("may", of, rule))
        }
        None => Ok(()),
    }
}

fn what(on: &GrantOn) -> &str {
    match on {
        GrantOn::Job(name) | GrantOn::BusinessType(name) => name,
        GrantOn::Group(group) => group.as_str(),
    }
}

/// As [`bounds::VISIBLE_PATTERN`] says.
fn check_text(field: &str, text: &str) -> Result<(), FieldError> {
    let most = bounds::PERSON_TEXT_CHARS;
    if text.chars().count() > most || text.chars().any(char::is_control) {
        let rule = format!("must be at most {most} characters, none of them a control character");
        return Err(FieldError::new(field, text, rule));
    }
    Ok(())
}

/// As [`bounds::MAIL_PATTERN`] says.
fn is_mail(text: &str) -> bool {
    let fits = |c: char| c != ' ' && !c.is_control() && !matches!(c, '@' | '<' | '>' | ',' | ';' | ':');
    let is_part = |part: &str| !part.is_empty() && part.chars().all(fits);
    text.split_once('@').is_some_and(|(name, host)| is_part(name) && is_part(host))
}

/// As [`bounds::PHONE_PATTERN`] says.
fn is_phone(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (5..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}
