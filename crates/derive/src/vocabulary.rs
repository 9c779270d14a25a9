//! `#[vocabulary]`: what every type of the vocabulary can do.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use crate::skip_none;

/// The same item with the derives of all, and with those that are named.
pub(crate) fn attributed(more: &TokenStream, item: DeriveInput) -> TokenStream {
    let in_snake_case =
        matches!(item.data, Data::Enum(_)).then(|| quote!(#[serde(rename_all = "snake_case")]));
    let item = skip_none::attributed(item);
    quote! {
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema, #more)]
        #in_snake_case
        #item
    }
}
