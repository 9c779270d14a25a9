//! `#[skip_none]`: what is absent is not written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Field, Type, parse_quote};

/// The same item, with serde's attribute at every field that is an `Option`.
pub(crate) fn attributed(mut item: DeriveInput) -> TokenStream {
    let fields: Vec<&mut Field> = match &mut item.data {
        Data::Struct(of) => of.fields.iter_mut().collect(),
        Data::Enum(of) => of.variants.iter_mut().flat_map(|variant| &mut variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    for field in fields.into_iter().filter(|field| is_option(&field.ty)) {
        field.attrs.push(parse_quote!(#[serde(default, skip_serializing_if = "Option::is_none")]));
    }
    quote!(#item)
}

fn is_option(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}
