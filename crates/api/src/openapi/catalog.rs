//! What the descriptor set says, in the words that the document and the page need: messages, enums and rpcs with
//! their comments.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

use crate::FILE_DESCRIPTOR_SET;

pub(super) const PACKAGE: &str = "anabranch.v1";

/// Everything in the package. Names are without it: `Partial.Reason`.
#[derive(Default)]
pub(super) struct Catalog {
    pub(super) messages: BTreeMap<String, Message>,
    pub(super) enums: BTreeMap<String, Enum>,
    /// By `Service/Method`.
    pub(super) rpcs: BTreeMap<String, Rpc>,
    /// What each service is for.
    pub(super) services: BTreeMap<String, String>,
}

#[derive(Default)]
pub(super) struct Message {
    pub(super) doc: String,
    /// In the order of the proto.
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) proto_name: String,
    pub(super) json_name: String,
    pub(super) doc: String,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
}

pub(super) enum Kind {
    Bool,
    Bytes,
    Double,
    Duration,
    Enum(String),
    Int32,
    Int64,
    Message(String),
    String,
    Timestamp,
    Uint32,
    Uint64,
}

pub(super) struct Enum {
    pub(super) doc: String,
    pub(super) values: Vec<EnumValue>,
}

pub(super) struct EnumValue {
    pub(super) name: String,
    pub(super) doc: String,
}

pub(super) struct Rpc {
    pub(super) doc: String,
    pub(super) request: String,
    pub(super) response: String,
    pub(super) streams: bool,
}

impl Catalog {
    pub(super) fn load() -> Catalog {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("build.rs encoded the descriptor set");
        let mut catalog = Catalog::default();
        for file in set.file.iter().filter(|file| file.package() == PACKAGE) {
            catalog.add_file(file);
        }
        catalog
    }

    fn add_file(&mut self, file: &FileDescriptorProto) {
        let comments = Comments::of(file);
        for (message, index) in file.message_type.iter().zip(0..) {
            self.add_message("", message, &comments, &[4, index]);
        }
        for (declared, index) in file.enum_type.iter().zip(0..) {
            self.add_enum("", declared, &comments, &[5, index]);
        }
        for (service, index) in file.service.iter().zip(0..) {
            self.add_service(service, &comments, &[6, index]);
        }
    }

    // The numbers in paths are those of the fields in descriptor.proto.
    fn add_message(&mut self, outer: &str, message: &DescriptorProto, comments: &Comments, path: &[i32]) {
        let name = format!("{outer}{}", message.name());
        let inner = format!("{name}.");
        for (nested, index) in message.nested_type.iter().zip(0..) {
            self.add_message(&inner, nested, comments, &join(path, &[3, index]));
        }
        for (declared, index) in message.enum_type.iter().zip(0..) {
            self.add_enum(&inner, declared, comments, &join(path, &[4, index]));
        }
        let fields = message.field.iter().zip(0..);
        let fields = fields.map(|(field, index)| Field::of(field, comments.at(&join(path, &[2, index])))).collect();
        let doc = comments.at(path);
        self.messages.insert(name, Message { doc, fields });
    }

    fn add_enum(&mut self, outer: &str, declared: &EnumDescriptorProto, comments: &Comments, path: &[i32]) {
        let values = declared.value.iter().zip(0..);
        let values = values
            .map(|(value, index)| EnumValue {
                name: value.name().to_owned(),
                doc: comments.at(&join(path, &[2, index])),
            })
            .collect();
        let doc = comments.at(path);
        self.enums.insert(format!("{outer}{}", declared.name()), Enum { doc, values });
    }

    fn add_service(&mut self, service: &ServiceDescriptorProto, comments: &Comments, path: &[i32]) {
        self.services.insert(service.name().to_owned(), comments.at(path));
        for (method, index) in service.method.iter().zip(0..) {
            let rpc = Rpc {
                doc: comments.at(&join(path, &[2, index])),
                request: short(method.input_type()),
                response: short(method.output_type()),
                streams: method.server_streaming(),
            };
            self.rpcs.insert(format!("{}/{}", service.name(), method.name()), rpc);
        }
    }
}

impl Field {
    fn of(field: &FieldDescriptorProto, doc: String) -> Field {
        Field {
            proto_name: field.name().to_owned(),
            json_name: field.json_name().to_owned(),
            doc,
            kind: Kind::of(field),
            repeated: field.label() == Label::Repeated,
        }
    }
}

impl Kind {
    /// The message, if it is one.
    pub(super) fn message(&self) -> Option<&str> {
        match self {
            Kind::Message(name) => Some(name),
            _ => None,
        }
    }

    fn of(field: &FieldDescriptorProto) -> Kind {
        match field.r#type() {
            Type::Bool => Kind::Bool,
            Type::Bytes => Kind::Bytes,
            Type::Double | Type::Float => Kind::Double,
            Type::Int32 | Type::Sint32 | Type::Sfixed32 => Kind::Int32,
            Type::Int64 | Type::Sint64 | Type::Sfixed64 => Kind::Int64,
            Type::Uint32 | Type::Fixed32 => Kind::Uint32,
            Type::Uint64 | Type::Fixed64 => Kind::Uint64,
            Type::String => Kind::String,
            Type::Enum => Kind::Enum(short(field.type_name())),
            Type::Message | Type::Group => match field.type_name() {
                ".google.protobuf.Timestamp" => Kind::Timestamp,
                ".google.protobuf.Duration" => Kind::Duration,
                name => Kind::Message(short(name)),
            },
        }
    }
}

/// Comments of one file, by the path of what they stand above.
struct Comments<'a>(BTreeMap<&'a [i32], &'a str>);

impl<'a> Comments<'a> {
    fn of(file: &'a FileDescriptorProto) -> Comments<'a> {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        Comments(locations.filter_map(|at| Some((at.path.as_slice(), at.leading_comments.as_deref()?))).collect())
    }

    fn at(&self, path: &[i32]) -> String {
        let lines = self.0.get(path).copied().unwrap_or_default().lines();
        lines.map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
    }
}

fn join(path: &[i32], more: &[i32]) -> Vec<i32> {
    [path, more].concat()
}

/// `.anabranch.v1.Partial.Reason` → `Partial.Reason`
fn short(full: &str) -> String {
    let name = full.trim_start_matches('.');
    name.strip_prefix(PACKAGE).and_then(|name| name.strip_prefix('.')).unwrap_or(name).to_owned()
}
