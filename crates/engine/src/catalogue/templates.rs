//! Templates for the parameters of tasks: defined once, numbered, and known to every group's shard (PUL-1).
//!
//! *Invariant:* every group's shard gets every template, and every later version of it, in the order in which they
//! were accepted: those that are there when the shard is born, at its birth, the others as they are defined.

use std::sync::Arc;

use tidemill_model::{
    Answer, CatalogueEvent, Rejection, ShardId, ShardMessage, Template, TemplateName, TemplateSpec, bounds,
};

use super::Catalogue;
use super::defined::{Defined, check_comment};
use crate::decision::Decision;

/// All templates.
pub(crate) type Templates = Defined<TemplateSpec>;

impl Catalogue {
    pub(super) fn define_template(&self, spec: &TemplateSpec) -> Result<Decision, Rejection> {
        check(spec)?;
        let event = |template| CatalogueEvent::TemplateDefined { template };
        self.templates.define(spec.clone(), event, |version| Answer::Template { version })
    }

    /// Tasks that were checked against it stay as they are: it is needed only for new ones.
    pub(super) fn delete_template(&self, name: &TemplateName) -> Result<Decision, Rejection> {
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

    /// A new group's shard hears of all templates.
    pub(super) fn tell_of_templates(&mut self, shard: ShardId) {
        for known in self.templates.iter() {
            self.mailbox.send(shard, ShardMessage::Template { template: Arc::clone(&known.accepted) });
        }
    }
}

fn check(spec: &TemplateSpec) -> Result<(), Rejection> {
    if spec.fields.len() > bounds::FIELDS {
        let rule = format!("at most {} fields", bounds::FIELDS);
        return Err(Rejection::field("fields", spec.fields.len(), rule));
    }
    let is_name = |name: &str| {
        (1..=bounds::FIELD_NAME_CHARS).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    };
    if let Some(bad) = spec.fields.keys().find(|name| !is_name(name)) {
        let rule =
            format!("names of fields are 1 to {} characters that can be seen", bounds::FIELD_NAME_CHARS);
        return Err(Rejection::field("fields", bad, rule));
    }
    check_comment(&spec.comment)
}
