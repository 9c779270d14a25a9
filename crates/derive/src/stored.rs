//! `#[derive(Stored)]`: how a type of the engine's state stands in a snapshot, field after field.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Field, Fields, Index, Member, Result};

pub(crate) fn derived(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let text = name.to_string();
    let (write, read, shape, types) = match &input.data {
        Data::Struct(data) => of_struct(&data.fields),
        Data::Enum(data) => {
            let (mut writes, mut reads, mut shapes, mut types) = (vec![], vec![], vec![], vec![]);
            for (number, variant) in (0_u64..).zip(&data.variants) {
                let of = of_variant(number, &variant.ident, &variant.fields);
                writes.push(of.0);
                reads.push(of.1);
                shapes.push(of.2);
                types.extend(of.3);
            }
            let write = quote!(match self { #(#writes)* });
            let read = quote!(match from.number()? {
                #(#reads)*
                _ => return Err(crate::stored::Malformed(#text)),
            });
            (write, read, quote!(#(#shapes)*), types)
        }
        Data::Union(data) => return Err(syn::Error::new(data.union_token.span, "a union is not stored")),
    };
    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        let bounds = generics.make_where_clause();
        let parameters: Vec<Ident> = input.generics.type_params().map(|of| of.ident.clone()).collect();
        for parameter in parameters {
            bounds.predicates.push(syn::parse_quote!(#parameter: 'static));
        }
        for of in types {
            bounds.predicates.push(syn::parse_quote!(#of: crate::stored::Stored));
        }
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #parameters crate::stored::Stored for #name #arguments #bounds {
            fn write(&self, to: &mut crate::stored::Writer) {
                #write
            }

            fn read(from: &mut crate::stored::Reader<'_>) -> ::std::result::Result<Self, crate::stored::Malformed> {
                Ok(#read)
            }

            fn shape(of: &mut crate::stored::Shape) {
                if of.enter::<Self>(#text) {
                    #shape
                    of.leave();
                }
            }
        }
    })
}

type Parts = (TokenStream, TokenStream, TokenStream, Vec<syn::Type>);

/// Whether a field says nothing that the others do not say: `#[stored(skip)]`. It is its default when it is read.
fn is_skipped(field: &Field) -> bool {
    field.attrs.iter().any(|attribute| attribute.path().is_ident("stored"))
}

fn member(at: usize, field: &Field) -> Member {
    field.ident.clone().map_or_else(|| Member::Unnamed(Index::from(at)), Member::Named)
}

fn of_struct(fields: &Fields) -> Parts {
    let (mut writes, mut reads, mut shapes, mut types) = (vec![], vec![], vec![], vec![]);
    for (at, field) in fields.iter().enumerate() {
        let (member, of) = (member(at, field), &field.ty);
        if is_skipped(field) {
            reads.push(quote!(#member: ::std::default::Default::default()));
            continue;
        }
        let text = member_text(&member);
        writes.push(quote!(crate::stored::Stored::write(&self.#member, to);));
        reads.push(quote!(#member: crate::stored::Stored::read(from)?));
        shapes.push(quote!(of.field::<#of>(#text);));
        types.push(of.clone());
    }
    (quote!(#(#writes)*), quote!(Self { #(#reads),* }), quote!(#(#shapes)*), types)
}

fn of_variant(number: u64, name: &Ident, fields: &Fields) -> Parts {
    let (mut names, mut reads, mut shapes, mut types) = (vec![], vec![], vec![], vec![]);
    for (at, field) in fields.iter().enumerate() {
        let (member, of) = (member(at, field), &field.ty);
        let bound = Ident::new(&format!("field_{at}"), Span::mixed_site());
        let text = member_text(&member);
        names.push(quote!(#member: #bound));
        reads.push(quote!(#member: crate::stored::Stored::read(from)?));
        shapes.push(quote!(of.field::<#of>(#text);));
        types.push(of.clone());
    }
    let bound = (0..fields.len()).map(|at| format_ident!("field_{at}", span = Span::mixed_site()));
    let text = name.to_string();
    let write = quote!(Self::#name { #(#names),* } => {
        to.number(#number);
        #(crate::stored::Stored::write(#bound, to);)*
    });
    let read = quote!(#number => Self::#name { #(#reads),* },);
    (write, read, quote!(of.variant(#text); #(#shapes)*), types)
}

fn member_text(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
