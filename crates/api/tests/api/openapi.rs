//! The OpenAPI document and its page cover every rpc and hang together.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_api::{FILE_DESCRIPTOR_SET, openapi};
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde_json::{Value, json};

fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("decodes")
}

/// `(path, verb, operation)` of the document.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("has paths");
    let operations = paths.iter().flat_map(|(path, verbs)| {
        let verbs = verbs.as_object().expect("has verbs");
        verbs.iter().map(|(verb, operation)| (path.clone(), verb.clone(), operation.clone()))
    });
    operations.collect()
}

/// Every value under a key, at any depth.
fn collect<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(key));
            object.values().for_each(|inner| collect(inner, key, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, key, found)),
        _ => {}
    }
}

#[test]
fn the_descriptor_set_holds_the_imports_and_the_comments() {
    let set = descriptors();
    let names: Vec<&str> = set.file.iter().map(prost_types::FileDescriptorProto::name).collect();
    for name in ["google/protobuf/timestamp.proto", "google/protobuf/duration.proto", "anabranch/v1/event.proto"] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    for (index, file) in set.file.iter().enumerate() {
        let before = &names[..index];
        assert!(file.dependency.iter().all(|needed| before.contains(&needed.as_str())), "imports come first");
    }
}

#[test]
fn every_rpc_has_a_route_or_is_listed_as_grpc_only() {
    let document = openapi::document();
    let mut told: Vec<String> = Vec::new();
    for (path, verb, operation) in operations(&document) {
        match operation["x-grpc-method"].as_str() {
            Some(rpc) => told.push(rpc.to_owned()),
            None => assert!(["/healthz", "/readyz", "/metrics"].contains(&path.as_str()), "{verb} {path}"),
        }
    }
    told.extend(document["x-grpc-only"].as_array().unwrap().iter().map(|rpc| rpc.as_str().unwrap().to_owned()));
    let mut rpcs = Vec::new();
    for file in descriptors().file {
        for service in &file.service {
            let methods = service.method.iter();
            rpcs.extend(methods.map(|method| format!("{}.{}/{}", file.package(), service.name(), method.name())));
        }
    }
    told.sort();
    rpcs.sort();
    assert_eq!(told, rpcs);
}

#[test]
fn every_reference_leads_somewhere() {
    let document = openapi::document();
    let mut references = Vec::new();
    collect(&document, "$ref", &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer} leads nowhere");
    }
}

#[test]
fn the_parameters_of_a_path_are_declared() {
    for (path, verb, operation) in operations(&openapi::document()) {
        let in_path: BTreeSet<&str> =
            path.split('{').skip(1).map(|part| part.split_once('}').expect("closed brace").0).collect();
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let declared = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let declared: BTreeSet<&str> = declared.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        assert_eq!(in_path, declared, "{verb} {path}");
        assert!(["get", "delete"].contains(&verb.as_str()) != operation["requestBody"].is_object(), "{verb} {path}");
    }
}

#[test]
fn operation_names_are_unique() {
    let operations = operations(&openapi::document());
    let mut seen = BTreeMap::new();
    for (path, verb, operation) in &operations {
        let name = operation["operationId"].as_str().unwrap();
        assert_eq!(seen.insert(name, (path, verb)), None, "{name} is used twice");
    }
}

#[test]
fn the_routes_are_these() {
    let routes = operations(&openapi::document());
    let mut routes: Vec<String> = routes
        .iter()
        .map(|(path, verb, operation)| format!("{path} {verb}: {}", operation["summary"].as_str().unwrap()))
        .collect();
    routes.sort();
    insta::assert_snapshot!(routes.join("\n"), @r"
    /healthz get: Whether the process is alive
    /metrics get: Metrics, in Prometheus's text format
    /readyz get: Whether the server is ready for requests
    /v1/heatmap get: Shows where the ids of a namespace were read and written in the last half hour
    /v1/namespaces get: Shows all namespaces, or those that were deleted and can still be restored
    /v1/namespaces post: Makes a namespace
    /v1/namespaces/{namespace} delete: Deletes a namespace
    /v1/namespaces/{namespace} get: Shows one namespace, with its slices and backfills
    /v1/namespaces/{namespace} patch: Changes the settings that are present in `config`, and sets those named in `clear` back to their defaults
    /v1/namespaces/{namespace}/backfills get: Shows the windows of a namespace
    /v1/namespaces/{namespace}/backfills post: Opens a window of time in which events older than `accept_limit` are accepted
    /v1/namespaces/{namespace}/backfills/{id}:close post: Ends a window before it expires
    /v1/namespaces/{namespace}/blockList:add post: Puts series on the block list, and leaves alone what others put there
    /v1/namespaces/{namespace}/blockList:remove post: Takes series off the block list
    /v1/namespaces/{namespace}/events:aggregate post: Counts what the histories of named series hold, by group
    /v1/namespaces/{namespace}/events:read post: Reads one page of one history
    /v1/namespaces/{namespace}/events:search post: Looks through the histories of named series, one after the other, for records that fulfil a query
    /v1/namespaces/{namespace}/events:stream post: Reads a history page after page, as one stream
    /v1/namespaces/{namespace}/events:write post: Queues events to be written soon
    /v1/namespaces/{namespace}/events:writeSync post: Writes events
    /v1/namespaces/{namespace}/series/{timeSeriesId}/partitions get: Shows the partitions of one series with their sizes, and which of them are split
    /v1/namespaces/{namespace}/slices get: Shows the slices of a namespace with what was measured of each
    /v1/namespaces/{namespace}/slices/{timeSlice} get: Shows one slice with what was measured of it
    /v1/namespaces/{namespace}/splits get: Shows splits of a namespace, newest slices first, without their pieces
    /v1/namespaces/{namespace}/splits/{timeSlice}/{timeSeriesId}/{timeBucket}/{eventBucket} get: Shows the split of one partition, with its pieces
    /v1/namespaces/{namespace}/splits:abandon post: Gives splits up
    /v1/namespaces/{namespace}/splits:differences get: Shows the latest differences that were found between splits and originals
    /v1/namespaces/{namespace}/splits:request post: Asks that partitions be looked at, wide or not
    /v1/namespaces/{namespace}/splits:retry post: Lets splits that failed, are parked, were too small or are set aside begin again at once
    /v1/namespaces/{namespace}/splits:setReadMode post: Sets how far reads of a namespace trust splits
    /v1/namespaces/{namespace}/splits:verify post: Compares splits with their originals now, whole
    /v1/namespaces/{namespace}/tuning get: Shows what the tuner decided for a namespace, with its evidence
    /v1/namespaces/{namespace}/tuning:apply post: Gives slices that no write can reach yet the proposed settings
    /v1/namespaces/{namespace}/tuning:propose post: Lets the tuner decide now, whatever the namespace lets it do by itself
    /v1/namespaces/{namespace}/tuning:reject post: Says no to a proposal
    /v1/namespaces/{namespace}:restore post: Brings back a namespace that was deleted, as long as its grace isn't over
    /v1/overview get: Shows what needs a person, and each namespace with its rates, latencies and splits
    /v1/tasks get: Shows what the background tasks of this server do
    ");
}

#[test]
fn one_operation_in_full() {
    let document = openapi::document();
    let operation = &document["paths"]["/v1/namespaces/{namespace}"]["delete"];
    let expected = json!({
        "operationId": "DeleteNamespace",
        "summary": "Deletes a namespace",
        "description": "Deletes a namespace: it isn't there any more at once, and everything in it goes when its grace is over.",
        "tags": ["NamespaceService"],
        "x-grpc-method": "anabranch.v1.NamespaceService/DeleteNamespace",
        "parameters": [
            {
                "name": "namespace",
                "in": "path",
                "required": true,
                "description": "Which one.",
                "schema": {"type": "string"},
            },
            {
                "name": "confirm",
                "in": "query",
                "description": "The name once more, so that none is deleted by accident.",
                "schema": {"type": "string"},
            },
            {
                "name": "grace",
                "in": "query",
                "description": "How long it can be restored; absent: as long as the server is configured to wait. Zero: not at all.",
                "schema": {"$ref": "#/components/schemas/Duration"},
            },
        ],
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DeleteNamespaceResponse"}}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    });
    assert_eq!(*operation, expected);
}

#[test]
fn a_body_that_the_path_says_in_full_may_be_left_out() {
    let document = openapi::document();
    let path = "/v1/namespaces/{namespace}/backfills";
    assert_eq!(document["paths"][path]["post"]["requestBody"]["required"], true);
    let body = &document["paths"][format!("{path}/{{id}}:close")]["post"]["requestBody"];
    assert_eq!(body["required"], false);
    let note = "`namespace` and `id` are in the path and may be left out here; where present they must agree.";
    assert_eq!(body["description"], note);
}

#[test]
fn a_stream_is_one_answer_a_line() {
    let document = openapi::document();
    let stream = &document["paths"]["/v1/namespaces/{namespace}/events:stream"]["post"]["responses"]["200"];
    let line = json!({"application/x-ndjson": {"schema": {"$ref": "#/components/schemas/ReadEventRecordsResponse"}}});
    assert_eq!(stream["content"], line);
}

#[test]
fn fields_have_the_schema_of_their_json_form() {
    let schemas = openapi::document()["components"]["schemas"].clone();
    let kinds = |message: &str, field: &str| schemas[message]["properties"][field].clone();
    assert_eq!(kinds("EventItem", "eventItemValue")["contentEncoding"], "base64");
    assert_eq!(kinds("ResponseContext", "bytesRead")["type"], json!(["string", "integer"]));
    assert_eq!(kinds("Event", "eventTime")["$ref"], "#/components/schemas/Timestamp");
    assert_eq!(kinds("Event", "eventItems")["items"]["$ref"], "#/components/schemas/EventItem");
    assert_eq!(kinds("Partial", "reason")["$ref"], "#/components/schemas/Partial.Reason");
    assert_eq!(schemas["Partial.Reason"]["enum"], json!(["REASON_UNSPECIFIED", "SLO", "RETENTION"]));
}

/// Names of messages and fields of a file that have no comment.
fn undocumented(document: &Value, message: &DescriptorProto) -> Vec<String> {
    let schema = &document["components"]["schemas"][message.name()];
    let own = schema["description"].is_null().then(|| message.name().to_owned());
    let fields = message.field.iter().filter(|field| schema["properties"][field.json_name()]["description"].is_null());
    own.into_iter().chain(fields.map(|field| format!("{}.{}", message.name(), field.name()))).collect()
}

#[test]
fn every_message_and_field_is_explained() {
    let document = openapi::document();
    let set = descriptors();
    let ours = set.file.iter().filter(|file| file.package() == "anabranch.v1");
    let missing: Vec<String> =
        ours.flat_map(|file| &file.message_type).flat_map(|message| undocumented(&document, message)).collect();
    assert_eq!(missing, Vec::<String>::new());
    for (path, verb, operation) in operations(&document) {
        assert_ne!(operation["summary"], "", "{verb} {path}");
    }
}

#[test]
fn the_page_stands_alone_and_its_links_lead_somewhere() {
    let page = openapi::page();
    assert!(page.contains("href=\"/openapi.json\""));
    for foreign in ["<script", "http://", "https://", "@import", "url(", "src="] {
        assert!(!page.contains(foreign), "the page holds {foreign}");
    }
    for anchor in page.split("href=\"#").skip(1) {
        let anchor = anchor.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{anchor}\"")), "#{anchor} leads nowhere");
    }
    for (path, _, operation) in operations(&openapi::document()) {
        assert!(page.contains(&path), "{path} is missing");
        assert!(page.contains(&format!("id=\"{}\"", operation["operationId"].as_str().unwrap())));
    }
}
