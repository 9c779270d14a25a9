//! Templates for the parameters of tasks: defined once, numbered, and known to every group's shard (PUL-1).
//!
//! *Invariant:* every group's shard gets every template, and every later version of it, in the order in which they
//! were accepted: those that are there when the shard is born, at its birth, the others as they are defined.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    Answer, CatalogueEvent, Event, Rejection, ShardId, ShardMessage, Template, TemplateName, TemplateSpec,
    bounds,
};

use super::Catalogue;
use crate::decision::Decision;

const MAX_TEMPLATES: usize = 1_000;

/// All templates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Templates {
    known: BTreeMap<TemplateName, Arc<Template>>,
    /// The last version that any template got, so that a name that comes back never gets one again.
    version: u32,
}

impl Catalogue {
    pub(super) fn define_template(&self, spec: &TemplateSpec) -> Result<Decision, Rejection> {
        check(spec)?;
        let known = self.templates.known.get(&spec.name);
        if let Some(same) = known.filter(|known| known.spec == *spec) {
            return Ok(Decision::answered(Vec::new(), Answer::Template { version: same.version }));
        }
        if known.is_none() && self.templates.known.len() >= MAX_TEMPLATES {
            let what = "the number of templates".to_owned();
            return Err(Rejection::LimitReached { what, limit: MAX_TEMPLATES as u64 });
        }
        let version = self.templates.version + 1;
        let template = Arc::new(Template { version, spec: spec.clone() });
        Ok(Decision::answered(
            vec![Event::Catalogue(CatalogueEvent::TemplateDefined { template })],
            Answer::Template { version },
        ))
    }

    /// Tasks that were checked against it stay as they are: it is needed only for new ones.
    pub(super) fn delete_template(&self, name: &TemplateName) -> Result<Decision, Rejection> {
        if !self.templates.known.contains_key(name) {
            return Err(Rejection::unknown("template", name));
        }
        Ok(Decision::answered(
            vec![Event::Catalogue(CatalogueEvent::TemplateDeleted { name: name.clone() })],
            Answer::Done,
        ))
    }

    pub(super) fn template_defined(&mut self, template: &Arc<Template>) {
        self.templates.version = self.templates.version.max(template.version);
        self.templates.known.insert(template.spec.name.clone(), Arc::clone(template));
        self.tell_all(&ShardMessage::Template { template: Arc::clone(template) });
    }

    pub(super) fn template_deleted(&mut self, name: &TemplateName) {
        self.templates.known.remove(name);
        self.tell_all(&ShardMessage::DropTemplate { name: name.clone() });
    }

    /// A new group's shard hears of all templates.
    pub(super) fn tell_of_templates(&mut self, shard: ShardId) {
        for template in self.templates.known.values() {
            self.mailbox.send(shard, ShardMessage::Template { template: Arc::clone(template) });
        }
    }

    fn tell_all(&mut self, message: &ShardMessage) {
        for group in self.groups.values() {
            self.mailbox.send(group.shard, message.clone());
        }
    }
}

fn check(spec: &TemplateSpec) -> Result<(), Rejection> {
    if spec.fields.len() > bounds::FIELDS {
        return Err(Rejection::field(
            "fields",
            spec.fields.len(),
            format!("at most {} fields", bounds::FIELDS),
        ));
    }
    let is_name = |name: &str| {
        (1..=bounds::FIELD_NAME_CHARS).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    };
    if let Some(bad) = spec.fields.keys().find(|name| !is_name(name)) {
        let rule =
            format!("names of fields are 1 to {} characters that can be seen", bounds::FIELD_NAME_CHARS);
        return Err(Rejection::field("fields", bad, rule));
    }
    if spec.comment.len() > bounds::COMMENT_BYTES {
        let rule = format!("must be at most {} bytes", bounds::COMMENT_BYTES);
        return Err(Rejection::field("comment", &spec.comment, rule));
    }
    Ok(())
}
