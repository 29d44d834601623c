//! The interface's forms: JSON, the well-known types, the OpenAPI document.

mod json;
mod openapi;
mod well_known;
