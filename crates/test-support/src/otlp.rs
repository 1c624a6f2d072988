//! Reads what an exporter sent to a collector: protobuf messages, as far as tests look at them.

use serde_json::{Map, Value, json};

/// A message: its fields by number, in order.
#[derive(Debug, Clone, Default)]
pub struct Message(Vec<(u64, Field)>);

#[derive(Debug, Clone)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    /// Panics on anything that is not a message.
    pub fn read(bytes: &[u8]) -> Self {
        let mut rest = bytes;
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut rest)),
                1 => Field::Number(u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut rest) as usize;
                    Field::Bytes(take(&mut rest, length).to_vec())
                }
                other => panic!("wire type {other} in {bytes:?}"),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    fn of(&self, field: u64) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(move |(known, _)| *known == field).map(|(_, value)| value)
    }

    pub fn number(&self, field: u64) -> Option<u64> {
        self.of(field).find_map(|value| match value {
            Field::Number(number) => Some(*number),
            Field::Bytes(_) => None,
        })
    }

    pub fn bytes(&self, field: u64) -> Option<&[u8]> {
        self.of(field).find_map(|value| match value {
            Field::Bytes(bytes) => Some(bytes.as_slice()),
            Field::Number(_) => None,
        })
    }

    pub fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes(field).unwrap_or_default().to_vec()).unwrap()
    }

    pub fn messages(&self, field: u64) -> Vec<Self> {
        let bytes = self.of(field).filter_map(|value| match value {
            Field::Bytes(bytes) => Some(Self::read(bytes)),
            Field::Number(_) => None,
        });
        bytes.collect()
    }

    /// A list of `KeyValue`.
    pub fn attributes(&self, field: u64) -> Value {
        let pair = |pair: Self| (pair.text(1), pair.messages(2).first().map_or(Value::Null, any));
        Value::Object(self.messages(field).into_iter().map(pair).collect::<Map<_, _>>())
    }
}

fn any(value: &Message) -> Value {
    match value.0.first() {
        Some((1, _)) => value.text(1).into(),
        Some((2, Field::Number(yes))) => (*yes != 0).into(),
        Some((3, Field::Number(number))) => (*number as i64).into(),
        Some((4, Field::Number(bits))) => f64::from_bits(*bits).into(),
        Some((5, _)) => value.messages(5)[0].messages(1).iter().map(any).collect(),
        Some((6, _)) => value.messages(6)[0].attributes(1),
        _ => Value::Null,
    }
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number without an end");
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

/// The resource and the records of an export request.
fn export(body: &[u8]) -> (Value, Vec<Message>) {
    let request = Message::read(body);
    let of_resource = &request.messages(1)[0];
    let resource = of_resource.messages(1)[0].attributes(1);
    (resource, of_resource.messages(2)[0].messages(2))
}

/// The resource of an export request, as JSON.
pub fn resource(body: &[u8]) -> Value {
    export(body).0
}

/// The spans of a request, each as JSON: `trace`, `id`, `parent` (empty for a root), `name`, `kind`, `start`, `end`,
/// `attributes`, and `error` where it failed.
pub fn spans(body: &[u8]) -> Vec<Value> {
    let hex = |bytes: Option<&[u8]>| -> String {
        bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let span = |span: Message| {
        let status = span.messages(15);
        let error = status.first().filter(|status| status.number(3) == Some(2)).map(|status| status.text(2));
        json!({
            "trace": hex(span.bytes(1)),
            "id": hex(span.bytes(2)),
            "parent": hex(span.bytes(4)),
            "name": span.text(5),
            "kind": span.number(6),
            "start": span.number(7),
            "end": span.number(8),
            "attributes": span.attributes(9),
            "error": error,
        })
    };
    export(body).1.into_iter().map(span).collect()
}

/// The log records of a request, each as JSON: `name`, `body`, `severity`, `attributes`.
pub fn logs(body: &[u8]) -> Vec<Value> {
    let log = |log: Message| {
        json!({
            "name": log.text(12),
            "body": log.messages(5).first().map(any),
            "severity": log.number(2),
            "at": log.number(1),
            "attributes": log.attributes(6),
        })
    };
    export(body).1.into_iter().map(log).collect()
}

/// The metrics of a request, each as JSON: `name`, and the `value` or `count` of every point.
pub fn metrics(body: &[u8]) -> Vec<Value> {
    let metric = |metric: Message| {
        let counts = metric.messages(7).into_iter().flat_map(|sum| sum.messages(1));
        let counts = counts.map(|point| json!({"attributes": point.attributes(7), "value": point.number(6)}));
        let sizes = metric.messages(9).into_iter().flat_map(|histogram| histogram.messages(1));
        let sizes = sizes.map(|point| json!({"attributes": point.attributes(9), "count": point.number(4)}));
        json!({"name": metric.text(1), "points": counts.chain(sizes).collect::<Vec<_>>()})
    };
    export(body).1.into_iter().map(metric).collect()
}
