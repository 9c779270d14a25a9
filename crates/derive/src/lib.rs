//! What the types of the vocabulary need beside their fields and variants: `#[derive(Aggregate)]`, `#[derive(AsStr)]`,
//! `#[derive(Levelled)]`, `#[derive(Stored)]`, `#[derive(Word)]`, `#[skip_none]` and `#[vocabulary]`.
//!
//! An aggregate has the kinds and subjects of its events from what stands at each variant:
//!
//! ```text
//! /// The scheduler creates a batch.
//! #[event(kind = "batch.generated", subject = "batch/{batch}", public)]
//! Generated { batch: BatchId },
//! ```
//!
//! `kind` is its published name. `subject` is text with expressions in braces, which may use the variant's fields; where it
//! stands at the enum, it is that of every event that has none of its own. `each(batch: BatchId)` at the enum makes a method of
//! a field that every event has.
//! Of a `public` event the first paragraph of its comment is the sentence that says when it happens; a kind that only the
//! journal has says `internal` instead, with the name of the reason. A variant without one of them does not compile.
//! `level = 2` is the level since which the kind may be written (rule 13); where it is absent, it is the first one.

mod levelled;
mod skip_none;
mod stored;
mod vocabulary;
mod word;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Expr, Fields, Lit, LitStr, Meta, MetaNameValue, Result, Token, Type, Variant,
    parenthesized, parse_macro_input,
};

/// Derives `KINDS`, `of_kind` and `subject`.
#[proc_macro_derive(Aggregate, attributes(event))]
pub fn aggregate(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derived(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `as_str` for an enum that serde writes in snake case: the same words.
#[proc_macro_derive(AsStr)]
pub fn as_str(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    word::as_str(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `level` for an enum of commands or messages: the level since which each variant may be written, which is the
/// first one unless the variant has `#[level(2)]`.
#[proc_macro_derive(Levelled, attributes(level))]
pub fn levelled(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    levelled::derived(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives how a type of the engine's state stands in a snapshot: its fields in the order of their declaration, but those
/// with `#[stored(skip)]`, which follow from the others; a variant by its number.
#[proc_macro_derive(Stored, attributes(stored))]
pub fn stored(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    stored::derived(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `as_str` and `Display` for an enum that serde writes in snake case: the same words.
#[proc_macro_derive(Word)]
pub fn word(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    word::derived(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Every field that is an `Option` is left out where it is `None`, and may be left out by others: each has
/// `#[serde(default, skip_serializing_if = "Option::is_none")]`. It stands above the derives, which have to see that.
#[proc_macro_attribute]
pub fn skip_none(_: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    skip_none::attributed(parse_macro_input!(item as DeriveInput)).into()
}

/// What every type of the vocabulary has: `Debug`, `Clone`, `PartialEq`, serde's derives and a schema, as what [`macro@skip_none`]
/// makes of it, an enum in snake case. Further derives stand in parentheses.
#[proc_macro_attribute]
pub fn vocabulary(more: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    vocabulary::attributed(&more.into(), parse_macro_input!(item as DeriveInput)).into()
}

/// What a variant says of itself.
struct About {
    kind: LitStr,
    subject: LitStr,
    audience: TokenStream,
    level: TokenStream,
}

fn derived(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "an aggregate is an enum of its events"));
    };
    let name = &input.ident;
    let (mut kinds, mut of_kind, mut subjects) = (Vec::new(), Vec::new(), Vec::new());
    let Common { subject: common, each } =
        common(input, &data.variants.iter().map(|variant| &variant.ident).collect::<Vec<_>>())?;
    for variant in &data.variants {
        let About { kind, subject, audience, level } = about(variant, common.as_ref())?;
        let ident = &variant.ident;
        let kind = quote!(crate::EventKind { name: #kind, audience: #audience, level: #level });
        of_kind.push(quote!(Self::#ident { .. } => #kind));
        kinds.push(kind);
        let (fields, text) = formatted(&subject, variant)?;
        subjects.push(quote!(Self::#ident { #(#fields,)* .. } => #text));
    }
    Ok(quote! {
        impl #name {
            /// The kinds of its events, in the order in which they are defined.
            pub const KINDS: &'static [crate::EventKind] = &[#(#kinds),*];

            /// Its kind.
            #[must_use]
            pub const fn of_kind(&self) -> crate::EventKind {
                match self { #(#of_kind),* }
            }

            /// What it is about, as `noun/id`.
            #[must_use]
            pub fn subject(&self) -> String {
                match self { #(#subjects),* }
            }

            #each
        }
    })
}

/// What stands at the enum.
#[derive(Default)]
struct Common {
    /// The subject of events that name none.
    subject: Option<LitStr>,
    /// The field that every event has, as a method.
    each: Option<TokenStream>,
}

fn common(input: &DeriveInput, variants: &[&Ident]) -> Result<Common> {
    let mut found = Common::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("event")) {
        attribute.parse_nested_meta(|meta| {
            match meta.path.require_ident()?.to_string().as_str() {
                "subject" => found.subject = Some(meta.value()?.parse()?),
                "each" => {
                    let inside;
                    parenthesized!(inside in meta.input);
                    let field: Ident = inside.parse()?;
                    inside.parse::<Token![:]>()?;
                    let of: Type = inside.parse()?;
                    let says = format!("The field `{field}`, which each of its events has.");
                    found.each = Some(quote! {
                        #[doc = #says]
                        #[must_use]
                        pub const fn #field(&self) -> #of {
                            let (#(Self::#variants { #field, .. })|*) = self;
                            *#field
                        }
                    });
                }
                _ => return Err(meta.error("must be subject or each")),
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn about(variant: &Variant, common: Option<&LitStr>) -> Result<About> {
    let (mut kind, mut subject, mut audience) = (None, common.cloned(), None);
    let mut level = quote!(crate::Level::FIRST);
    for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("event")) {
        attribute.parse_nested_meta(|meta| {
            match meta.path.require_ident()?.to_string().as_str() {
                "kind" => kind = Some(meta.value()?.parse()?),
                "subject" => subject = Some(meta.value()?.parse()?),
                "level" => level = levelled::number(&meta.value()?.parse()?),
                "public" => {
                    let sentence = sentence(variant);
                    audience = Some(quote!(crate::Audience::Public(#sentence)));
                }
                "internal" => {
                    let value: LitStr = meta.value()?.parse()?;
                    let reason = Ident::new(&value.value(), value.span());
                    audience = Some(quote!(crate::Audience::Internal(crate::Internal::#reason)));
                }
                _ => return Err(meta.error("must be kind, subject, level, public or internal")),
            }
            Ok(())
        })?;
    }
    let missing = |what: &str| Error::new(variant.span(), format!("#[event(…)] must have {what}"));
    Ok(About {
        kind: kind.ok_or_else(|| missing("kind"))?,
        subject: subject.ok_or_else(|| missing("subject"))?,
        audience: audience.ok_or_else(|| missing("public, or internal with a reason"))?,
        level,
    })
}

/// The first paragraph of a variant's comment, as one line.
fn sentence(variant: &Variant) -> String {
    let lines = variant.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(MetaNameValue { path, value: Expr::Lit(literal), .. }) if path.is_ident("doc") => {
            match &literal.lit {
                Lit::Str(line) => Some(line.value().trim().to_owned()),
                _ => None,
            }
        }
        _ => None,
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The fields that a subject uses, and the expression that makes its text.
fn formatted(subject: &LitStr, variant: &Variant) -> Result<(Vec<Ident>, TokenStream)> {
    let text = subject.value();
    let (mut template, mut values) = (String::new(), Vec::new());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let (value, behind) =
            after.split_once('}').ok_or_else(|| Error::new(subject.span(), "a brace is not closed"))?;
        values.push(LitStr::new(value, subject.span()).parse::<Expr>()?);
        template.push_str(before);
        template.push_str("{}");
        rest = behind;
    }
    if values.is_empty() {
        return Ok((Vec::new(), quote!(#text.to_owned())));
    }
    template.push_str(rest);
    let Fields::Named(fields) = &variant.fields else {
        return Err(Error::new(variant.span(), "an event has named fields"));
    };
    let mut words = Vec::new();
    values.iter().for_each(|value| idents(quote!(#value), &mut words));
    let fields = fields.named.iter().filter_map(|field| field.ident.clone());
    let used = fields.filter(|field| words.contains(field)).collect();
    Ok((used, quote!(format!(#template, #(#values),*))))
}

fn idents(tokens: TokenStream, found: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => found.push(ident),
            TokenTree::Group(group) => idents(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
