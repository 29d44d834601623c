//! The interface described: as an OpenAPI 3.1 document for tools, as a page for people that the server answers, and as the
//! reference in `docs/api.md`. All are made of the compiled protos and their comments, and of the table of routes.

mod catalog;
mod document;
mod html;
mod markdown;
mod routes;
mod schema;

pub use document::document;
pub use html::page;
pub use markdown::reference;
