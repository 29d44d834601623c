//! The HTTP interface described: as an OpenAPI 3.1 document for tools, and as a page for people. Both are made of the
//! compiled protos and their comments, and of the table of routes.

mod catalog;
mod document;
mod html;
mod routes;
mod schema;

pub use document::document;
pub use html::page;
