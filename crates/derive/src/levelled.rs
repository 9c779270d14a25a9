//! `#[derive(Levelled)]`: the level since which each variant may be written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, LitInt, Result};

/// The level of this number.
pub(crate) fn number(number: &LitInt) -> TokenStream {
    quote!(crate::Level::new(#number))
}

pub(crate) fn derived(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "only the variants of an enum have levels"));
    };
    let name = &input.ident;
    let mut arms = Vec::new();
    for variant in &data.variants {
        let given = variant.attrs.iter().find(|attribute| attribute.path().is_ident("level"));
        let level = match given {
            Some(attribute) => number(&attribute.parse_args()?),
            None => quote!(crate::Level::FIRST),
        };
        let ident = &variant.ident;
        arms.push(quote!(Self::#ident { .. } => #level));
    }
    Ok(quote! {
        impl #name {
            /// The level since which it may be written (rule 13).
            #[must_use]
            pub const fn level(&self) -> crate::Level {
                match self { #(#arms),* }
            }
        }
    })
}
