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
            /// Every setting of this section with what it means.
            pub(super) const SETTINGS: &'static [(&'static str, &'static str)] =
                &[$( (stringify!($field), concat!($($doc),+)), )+];
        }
    };
}

pub(super) use section;
