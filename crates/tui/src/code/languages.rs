//! The lexical rules of languages, as far as highlighting needs them.

/// The lexical rules of a language.
#[derive(Debug)]
pub(super) struct Language {
    /// Names in code fences and endings of files, separated by blanks.
    names: &'static str,
    pub(super) keywords: &'static str,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) quotes: &'static str,
    /// Quotes of texts that go over lines.
    pub(super) long_quotes: &'static [&'static str],
}

pub(super) fn language(name: &str) -> Option<&'static Language> {
    let name = name.trim().to_ascii_lowercase();
    ALL.iter().find(|language| language.names.split(' ').any(|known| known == name))
}

const SLASHES: &[&str] = &["//"];
const HASH: &[&str] = &["#"];
const STARS: Option<(&str, &str)> = Some(("/*", "*/"));

#[rustfmt::skip]
static ALL: &[Language] = &[
    Language { names: "rust rs", line_comments: SLASHES, block_comment: STARS, quotes: "\"", long_quotes: &[],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while" },
    Language { names: "python py python3 pyi", line_comments: HASH, block_comment: None, quotes: "\"'", long_quotes: &["\"\"\"", "'''"],
        keywords: "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield" },
    Language { names: "javascript js jsx mjs cjs typescript ts tsx", line_comments: SLASHES, block_comment: STARS, quotes: "\"'", long_quotes: &["`"],
        keywords: "abstract any as async await boolean break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null number of private protected public readonly return static string super switch this throw true try type typeof undefined var void while yield" },
    Language { names: "go golang", line_comments: SLASHES, block_comment: STARS, quotes: "\"'", long_quotes: &["`"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var" },
    Language { names: "c h cpp cc cxx hpp c++ objc m", line_comments: SLASHES, block_comment: STARS, quotes: "\"'", long_quotes: &[],
        keywords: "auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float for friend goto if inline int long namespace new noexcept nullptr operator override private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while" },
    Language { names: "java kotlin kt scala groovy gradle csharp cs swift dart", line_comments: SLASHES, block_comment: STARS, quotes: "\"'", long_quotes: &["\"\"\""],
        keywords: "abstract as async await boolean break byte case catch char class const continue def default do double else enum extends false final finally float for fun func guard if implements import in init int interface internal is let long namespace new null nil object open override package private protected public return sealed short static string struct super switch synchronized this throw throws true try typealias using val var void when where while" },
    Language { names: "bash sh shell zsh fish console shellscript", line_comments: HASH, block_comment: None, quotes: "\"'", long_quotes: &[],
        keywords: "alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in local readonly return select set shift source then trap unset until while" },
    Language { names: "json jsonc json5", line_comments: SLASHES, block_comment: STARS, quotes: "\"", long_quotes: &[], keywords: "true false null" },
    Language { names: "yaml yml", line_comments: HASH, block_comment: None, quotes: "\"'", long_quotes: &[], keywords: "true false null yes no on off" },
    Language { names: "toml ini cfg conf properties dotenv env", line_comments: &["#", ";"], block_comment: None, quotes: "\"'", long_quotes: &["\"\"\"", "'''"], keywords: "true false" },
    Language { names: "html xml svg vue xhtml", line_comments: &[], block_comment: Some(("<!--", "-->")), quotes: "\"'", long_quotes: &[], keywords: "" },
    Language { names: "css scss less", line_comments: SLASHES, block_comment: STARS, quotes: "\"'", long_quotes: &[], keywords: "important from to and not only" },
    Language { names: "sql psql mysql sqlite", line_comments: &["--"], block_comment: STARS, quotes: "\"'", long_quotes: &[],
        keywords: "ADD ALTER AND AS ASC BEGIN BETWEEN BY CASE COMMIT CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS FROM FULL GROUP HAVING IN INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER PRIMARY RIGHT ROLLBACK SELECT SET TABLE THEN UNION UNIQUE UPDATE VALUES VIEW WHEN WHERE WITH add alter and as asc begin between by case commit create delete desc distinct drop else end exists from full group having in index inner insert into is join key left like limit not null on or order outer primary right rollback select set table then union unique update values view when where with" },
    Language { names: "ruby rb", line_comments: HASH, block_comment: Some(("=begin", "=end")), quotes: "\"'", long_quotes: &[],
        keywords: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo require rescue retry return self super then true unless until when while yield" },
    Language { names: "php", line_comments: &["//", "#"], block_comment: STARS, quotes: "\"'", long_quotes: &[],
        keywords: "abstract array as break case catch class clone const continue default do echo else elseif extends false final finally fn for foreach function if implements interface namespace new null private protected public return static switch throw trait true try use var while" },
    Language { names: "lua", line_comments: &["--"], block_comment: Some(("--[[", "]]")), quotes: "\"'", long_quotes: &[],
        keywords: "and break do else elseif end false for function goto if in local nil not or repeat return then true until while" },
    Language { names: "haskell hs elm", line_comments: &["--"], block_comment: Some(("{-", "-}")), quotes: "\"", long_quotes: &[],
        keywords: "case class data deriving do else if import in infix instance let module newtype of then type where" },
    Language { names: "elixir ex exs erlang erl clojure clj lisp scheme r julia jl perl pl", line_comments: &["#", ";", "%"], block_comment: None, quotes: "\"", long_quotes: &["\"\"\""],
        keywords: "and case cond def defmodule defn defp do else end false fn for function if import in let library my nil not or require return struct sub then true try use using when while" },
    Language { names: "dockerfile docker containerfile", line_comments: HASH, block_comment: None, quotes: "\"'", long_quotes: &[],
        keywords: "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR" },
    Language { names: "makefile make mk cmake nix just justfile tf hcl terraform", line_comments: HASH, block_comment: None, quotes: "\"'", long_quotes: &["''"],
        keywords: "define else endef endif export for if ifdef ifeq ifndef ifneq in include inherit let module output provider rec resource set then variable with" },
];
