//! What of the state is the vocabulary's stands as in the journal, as JSON, whose form is published and stays. Each value
//! stands once: most of them are shared, or have few values.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidemill_model::{CalendarSpec, PoolSpec, TemplateSpec, Versioned};

use super::{Malformed, Reader, Shape, Stored, Writer};

fn write<T: Serialize + 'static>(value: &T, to: &mut Writer) {
    let json = serde_json::to_vec(value).expect("the vocabulary is plain data with string keys");
    to.content::<T>(&json);
}

fn read<T: DeserializeOwned + Clone + 'static>(
    from: &mut Reader<'_>,
    name: &'static str,
) -> Result<T, Malformed> {
    from.content(|json| serde_json::from_slice(json).map_err(|_| Malformed(name)))
}

/// Its schema without what is for people.
fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = serde_json::to_value(SchemaGenerator::default().into_root_schema_for::<T>())
        .expect("a schema is plain data");
    strip(&mut schema);
    schema
}

fn strip(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.retain(|key, value| {
                !matches!(key.as_str(), "description" | "title" | "examples") || value.is_object()
            });
            object.values_mut().for_each(strip);
        }
        Value::Array(array) => array.iter_mut().for_each(strip),
        _ => {}
    }
}

macro_rules! as_json {
    ($($of:ty),+ $(,)?) => { $(
        impl Stored for $of {
            fn write(&self, to: &mut Writer) {
                write(self, to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                read(from, stringify!($of))
            }

            fn shape(of: &mut Shape) {
                if of.enter::<Self>(stringify!($of)) {
                    of.word(&schema_of::<Self>().to_string());
                    of.leave();
                }
            }
        }
    )+ };
}

/// The same, where there is no schema: their form is that of what they are made from.
macro_rules! as_plain_json {
    ($($of:ty),+ $(,)?) => { $(
        impl Stored for $of {
            fn write(&self, to: &mut Writer) {
                write(self, to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                read(from, stringify!($of))
            }

            fn shape(of: &mut Shape) {
                of.word(stringify!($of));
            }
        }
    )+ };
}

as_json!(
    tidemill_model::Account,
    tidemill_model::Actor,
    tidemill_model::BatchResult,
    tidemill_model::CalendarName,
    tidemill_model::CredentialId,
    tidemill_model::CredentialKind,
    tidemill_model::Deletion,
    tidemill_model::Department,
    tidemill_model::DepartmentName,
    tidemill_model::Ending,
    tidemill_model::ExternalDependency,
    tidemill_model::ExternalWork,
    tidemill_model::ExternalWorkId,
    tidemill_model::Freeze,
    tidemill_model::GroupId,
    tidemill_model::GroupName,
    tidemill_model::GroupSettings,
    tidemill_model::JobDefinition,
    tidemill_model::JobName,
    tidemill_model::JobSpec,
    tidemill_model::JobType,
    tidemill_model::Ledger,
    tidemill_model::Level,
    tidemill_model::LevelHold,
    tidemill_model::Mapping,
    tidemill_model::Measure,
    tidemill_model::MovedOccurrence,
    tidemill_model::Origin,
    tidemill_model::Outcome,
    tidemill_model::Permission,
    tidemill_model::Person,
    tidemill_model::PersonName,
    tidemill_model::PoolName,
    tidemill_model::PoolUse,
    tidemill_model::Priority,
    tidemill_model::Process,
    tidemill_model::ReportedRun,
    tidemill_model::RerunPlace,
    tidemill_model::RerunSpec,
    tidemill_model::Reserved,
    tidemill_model::Resume,
    tidemill_model::Role,
    tidemill_model::Severity,
    tidemill_model::ShardMessage,
    tidemill_model::SkippedJob,
    tidemill_model::SkippedTimes,
    tidemill_model::Standing,
    tidemill_model::StartRight,
    tidemill_model::Subscription,
    tidemill_model::TaskSpec,
    tidemill_model::TemplateName,
    tidemill_model::TimeoutKind,
    tidemill_model::UnfinishedJob,
    tidemill_model::UserName,
    tidemill_model::WaivedParent,
    tidemill_model::WorkerLabel,
);

as_plain_json!(
    tidemill_calendar::Days,
    tidemill_calendar::Rotation,
    tidemill_calendar::Timetable,
    Versioned<CalendarSpec>,
    Versioned<PoolSpec>,
    Versioned<TemplateSpec>,
);
