//! What administrators define by name. Each kind counts its versions: a definition that differs gets the next one, so
//! that a name which comes back never gets one again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Answer, CatalogueEvent, Definable, JobDefinition, Rejection, ShardMessage, Template, TemplateName,
    TemplateSpec, Versioned, bounds,
};

use super::{Catalogue, NAMED_JOBS, check_bytes, check_count, check_limit};
use crate::decision::{Decision, Ruled};

const MAX_DEFINED: usize = 1_000;

/// All definitions of one kind, with what else is known of each.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Defined<Spec: Definable, More = ()> {
    known: BTreeMap<Spec::Name, Known<Spec, More>>,
    /// The last version that any of them got.
    version: u32,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(super) struct Known<Spec, More = ()> {
    pub(super) accepted: Arc<Versioned<Spec>>,
    pub(super) more: More,
}

impl<Spec: Definable, More> Default for Defined<Spec, More> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), version: 0 }
    }
}

impl<Spec: Definable, More> Defined<Spec, More> {
    pub(super) fn get(&self, name: &Spec::Name) -> Option<&Known<Spec, More>> {
        self.known.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &Spec::Name) -> Option<&mut Known<Spec, More>> {
        self.known.get_mut(name)
    }

    /// In order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Known<Spec, More>> {
        self.known.values()
    }

    /// What a wish to define one comes to, once all but the number of them was looked at.
    pub(super) fn define(
        &self,
        spec: Spec,
        event: impl FnOnce(Arc<Versioned<Spec>>) -> CatalogueEvent,
        answer: impl FnOnce(u32) -> Answer,
    ) -> Ruled {
        match self.get(spec.name()) {
            Some(same) if same.accepted.spec == spec => {
                return Ok(Decision::unchanged(answer(same.accepted.version)));
            }
            Some(_) => {}
            None => {
                check_limit(format!("the number of {}s", Spec::NOUN), self.known.len() + 1, MAX_DEFINED)?;
            }
        }
        let version = self.version + 1;
        let event = event(Arc::new(Versioned { version, spec }));
        Ok(Decision::answered(vec![event.into()], answer(version)))
    }

    /// Refuses to remove what is not there.
    pub(super) fn check_known(&self, name: &Spec::Name) -> Result<(), Rejection> {
        match self.known.contains_key(name) {
            true => Ok(()),
            false => Err(Rejection::unknown(Spec::NOUN, name)),
        }
    }

    /// It is in force from now on. `more`: what is known of it, given the one that had its name before.
    pub(super) fn insert(
        &mut self,
        accepted: &Arc<Versioned<Spec>>,
        more: impl FnOnce(Option<Known<Spec, More>>) -> More,
    ) {
        let name = accepted.spec.name();
        let more = more(self.known.remove(name));
        self.known.insert(name.clone(), Known { accepted: Arc::clone(accepted), more });
        self.version = self.version.max(accepted.version);
    }

    pub(super) fn remove(&mut self, name: &Spec::Name) -> Option<Known<Spec, More>> {
        self.known.remove(name)
    }
}

impl Catalogue {
    /// Some of the jobs that use something so, by name; `None`: no job does.
    pub(super) fn users_of(&self, so: impl Fn(&JobDefinition) -> bool) -> Option<String> {
        let users = self.jobs.values().map(|job| &job.definition).filter(|definition| so(definition));
        let names: Vec<String> = users.take(NAMED_JOBS).map(|definition| definition.full_name()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Templates for the parameters of tasks (PUL-1).
///
/// *Invariant:* every group's shard gets every template, and every later version of it, in the order in which they
/// were accepted: those that are there when the shard is born, at its birth, the others as they are defined.
pub(crate) type Templates = Defined<TemplateSpec>;

impl Catalogue {
    pub(super) fn define_template(&self, spec: &TemplateSpec) -> Ruled {
        check_template(spec)?;
        let event = |template| CatalogueEvent::TemplateDefined { template };
        self.templates.define(spec.clone(), event, |version| Answer::Template { version })
    }

    /// Tasks that were checked against it stay as they are: it is needed only for new ones.
    pub(super) fn delete_template(&self, name: &TemplateName) -> Ruled {
        self.templates.check_known(name)?;
        Ok(Decision::done(CatalogueEvent::TemplateDeleted { name: name.clone() }))
    }

    pub(super) fn template_defined(&mut self, template: &Arc<Template>) {
        self.templates.insert(template, |_| ());
        self.tell_groups(None, &ShardMessage::Template { template: Arc::clone(template) });
    }

    pub(super) fn template_deleted(&mut self, name: &TemplateName) {
        self.templates.remove(name);
        self.tell_groups(None, &ShardMessage::DropTemplate { name: name.clone() });
    }
}

fn check_template(spec: &TemplateSpec) -> Result<(), Rejection> {
    check_count("fields", spec.fields.len(), bounds::FIELDS, " fields")?;
    let is_name = |name: &str| {
        (1..=bounds::FIELD_NAME_CHARS).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    };
    if let Some(bad) = spec.fields.keys().find(|name| !is_name(name)) {
        let rule =
            format!("names of fields are 1 to {} characters that can be seen", bounds::FIELD_NAME_CHARS);
        return Err(Rejection::field("fields", bad, rule));
    }
    Ok(check_bytes("comment", &spec.comment, bounds::COMMENT_BYTES)?)
}
