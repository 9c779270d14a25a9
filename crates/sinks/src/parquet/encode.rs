//! Rows as a Parquet file, and the position in its footer.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use tidemill_log::Head;

use crate::error::Cause;
use crate::{Change, State};

const POSITION: &str = "tidemill.position";

/// What a column holds. Times are 64-bit integers, milliseconds since 1970, for older Hives read no other form.
enum Column {
    Int(fn(&Change, u32) -> i64),
    OptionalInt(fn(&Change) -> Option<i64>),
    Text(fn(&Change) -> &str),
    OptionalText(fn(&Change) -> Option<&str>),
}

const COLUMNS: &[(&str, Column)] = &[
    ("grant_id", Column::Int(|change, _| change.given.grant)),
    ("event", Column::Text(event)),
    ("at_ms", Column::Int(|change, _| change.at)),
    ("task_id", Column::Int(|change, _| change.given.task)),
    ("task_version", Column::Int(|change, _| change.given.task_version)),
    ("task_name", Column::OptionalText(|change| change.given.task_name.as_deref())),
    ("template", Column::OptionalText(|change| change.given.template.as_deref())),
    ("parameters", Column::Text(|change| &change.given.parameters)),
    ("group_name", Column::Text(|change| &change.given.group)),
    ("user_name", Column::Text(|change| &change.given.user)),
    ("start_at_ms", Column::Int(|change, _| change.given.start_at)),
    ("granted_at_ms", Column::Int(|change, _| change.given.granted_at)),
    ("expires_at_ms", Column::OptionalInt(|change| change.given.expires_at)),
    ("result", Column::OptionalText(|change| change.state.result())),
    ("returned_by", Column::OptionalText(|change| change.state.returned_by())),
    ("reason", Column::OptionalText(|change| change.state.reason())),
    ("journal_partition", Column::Int(|_, partition| partition.into())),
    ("journal_offset", Column::Int(|change, _| change.offset.cast_signed())),
    ("event_index", Column::Int(|change, _| change.index.into())),
];

/// The word for what happened.
fn event(change: &Change) -> &str {
    match &change.state {
        State::Live => "granted",
        State::Completed { .. } | State::Returned { .. } | State::Expired => change.state.word(),
    }
}

fn schema() -> String {
    let columns = COLUMNS.iter().map(|(name, column)| match column {
        Column::Int(_) => format!("required int64 {name};"),
        Column::OptionalInt(_) => format!("optional int64 {name};"),
        Column::Text(_) => format!("required binary {name} (UTF8);"),
        Column::OptionalText(_) => format!("optional binary {name} (UTF8);"),
    });
    format!("message task_log {{ {} }}", columns.collect::<Vec<_>>().join(" "))
}

/// A file of these rows, with the position in its footer.
pub(super) fn file(rows: &[Change], partition: u32, head: &Head) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let position = serde_json::to_string(head).expect("a head is plain strings and numbers");
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("tidemill ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(POSITION.to_owned(), position)]))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in COLUMNS {
        write(&mut group, column, rows, partition)?;
    }
    group.close()?;
    writer.into_inner()
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column,
    rows: &[Change],
    partition: u32,
) -> Result<(), ParquetError> {
    let mut writer = group.next_column()?.expect("the schema was made of the same columns");
    match column {
        Column::Int(of) => {
            let values: Vec<_> = rows.iter().map(|row| of(row, partition)).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Column::OptionalInt(of) => {
            let values: Vec<_> = rows.iter().filter_map(of).collect();
            let levels: Vec<i16> = rows.iter().map(|row| of(row).is_some().into()).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Column::Text(of) => texts(&mut writer, rows.iter().map(of), None)?,
        Column::OptionalText(of) => {
            let levels: Vec<i16> = rows.iter().map(|row| of(row).is_some().into()).collect();
            texts(&mut writer, rows.iter().filter_map(of), Some(&levels))?;
        }
    }
    writer.close()
}

fn texts<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    texts: impl Iterator<Item = &'a str>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let values: Vec<_> = texts.map(ByteArray::from).collect();
    writer.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
    Ok(())
}

/// The position in a file's footer.
pub(super) fn head(file: Vec<u8>) -> Result<Head, Cause> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file))?;
    let pairs = metadata.file_metadata().key_value_metadata();
    let position = pairs.into_iter().flatten().find(|pair| pair.key == POSITION);
    let text = position.and_then(|pair| pair.value.as_deref());
    let text = text.ok_or("its footer has no position: it is none of this program's files")?;
    Ok(serde_json::from_str(text)?)
}
