//! The interface's forms: JSON, the well-known types, the OpenAPI document, the reference.

mod json;
mod openapi;
mod reference;
mod well_known;
