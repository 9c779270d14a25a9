//! `#[derive(AsStr)]` and `#[derive(Word)]`: the word of each variant, as JSON has it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Result};

/// With `as_str`.
pub(crate) fn as_str(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "only the variants of an enum have words"));
    };
    let name = &input.ident;
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let words = variants.clone().map(|variant| snake_case(&variant.to_string()));
    Ok(quote! {
        impl #name {
            /// The word that tables, JSON and people use.
            #[must_use]
            pub const fn as_str(&self) -> &'static str {
                match self { #(Self::#variants { .. } => #words),* }
            }
        }
    })
}

/// With `as_str` and `Display`.
pub(crate) fn derived(input: &DeriveInput) -> Result<TokenStream> {
    let (as_str, name) = (as_str(input)?, &input.ident);
    Ok(quote! {
        #as_str

        impl ::std::fmt::Display for #name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    })
}

/// As `#[serde(rename_all = "snake_case")]` has it.
fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}
