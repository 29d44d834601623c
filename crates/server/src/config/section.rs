//! Defines a section of the configuration once: the struct, its defaults, and the text that explains each setting.

/// A struct whose fields have defaults, and whose documentation can be printed.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $(#[serde $serde:tt])? $field:ident: $type:ty = $default:expr, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $( $(#[doc = $doc])+ $(#[serde $serde])? pub $field: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )+ }
            }
        }

        impl $name {
            /// What this section is for, and every setting with its type and what it means.
            const SECTION: Section = Section {
                about: concat!($($about),+),
                settings: &[$( Setting {
                    name: stringify!($field),
                    kind: stringify!($type),
                    doc: concat!($($doc),+),
                }, )+],
            };
        }
    };
}

/// A section as it is told to people.
pub(super) struct Section {
    pub(super) about: &'static str,
    pub(super) settings: &'static [Setting],
}

/// A setting as it is told to people.
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Its type in Rust.
    pub(super) kind: &'static str,
    pub(super) doc: &'static str,
}

pub(super) use section;
