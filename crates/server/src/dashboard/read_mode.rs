//! The read mode of a namespace: the ladder, where it stands on it, how it came there, and the form to change it.

use anabranch_api::v1::{Namespace, ReadMode, SplitSettings, SplitUse};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{chart, layout, show};

/// From least to most trust.
const LADDER: [(ReadMode, &str, &str); 5] = [
    (ReadMode::Off, "original", "nothing else is read"),
    (ReadMode::Shadow, "original", "splits are read beside it, and both costs kept"),
    (ReadMode::Comparison, "original", "splits are read beside it and compared, byte by byte"),
    (ReadMode::Exec, "split", "the original is read beside it and compared"),
    (ReadMode::On, "split", "the original is read for one in a hundred, for its cost only"),
];

/// A mode as a word that stands out.
pub(super) fn badge(mode: ReadMode) -> Markup {
    let kind = match mode {
        ReadMode::Exec | ReadMode::On => "good",
        ReadMode::Comparison | ReadMode::Shadow => "plain",
        ReadMode::Off | ReadMode::Unspecified => "off",
    };
    layout::badge(kind, mode.as_str_name())
}

/// Everything of the read mode.
pub(super) fn section(namespace: &Namespace, now: Timestamp) -> Markup {
    let splits = namespace.splits.clone().unwrap_or_default();
    let settings = namespace.config.as_ref().and_then(|config| config.split).unwrap_or_default();
    html! {
        section aria-labelledby="read-mode" {
            h2 #read-mode { "Read mode" }
            p { "How far reads trust splits. Originals are kept, so that every step can be taken back." }
            (ladder(splits.read_mode()))
            @if splits.read_mode() == ReadMode::Comparison { (promotion(&splits, &settings, now)) }
            (form(&namespace.name, splits.read_mode()))
            (history(&splits))
        }
    }
}

fn ladder(current: ReadMode) -> Markup {
    html! {
        ol.ladder {
            @for (mode, served, beside) in LADDER {
                li aria-current=[(mode == current).then_some("step")] {
                    strong { (mode.as_str_name()) }
                    span { "serves the " b { (served) } }
                    span.more { (beside) }
                }
            }
        }
    }
}

/// How far the way to EXEC is.
fn promotion(splits: &SplitUse, settings: &SplitSettings, now: Timestamp) -> Markup {
    let needed = u64::from(settings.promote_comparisons());
    let clean = u64::from(splits.clean_comparisons);
    html! {
        @if settings.promote() {
            div.promotion {
                p {
                    "Goes to EXEC by itself after " b { (show::count(needed)) } " comparisons without a difference over "
                    b { (show::duration(settings.promote_over.as_ref())) } ". So far: "
                    b data-field="clean_comparisons" data-value=(clean) { (show::count(clean)) }
                    @if let Some(since) = &splits.clean_since { ", the first " (show::ago(Some(since), now)) }
                    "."
                }
                (chart::bar(clean, needed, "done", &format!("{clean} of {needed} comparisons")))
            }
        } @else {
            p { "It stays in COMPARISON until an operator changes it: " code { "split.promote" } " is off. "
                b data-field="clean_comparisons" data-value=(clean) { (show::count(clean)) } " comparisons without a difference so far." }
        }
    }
}

fn form(name: &str, current: ReadMode) -> Markup {
    html! {
        details.ask #change-mode {
            summary.button { "Change the read mode…" }
            form.stack method="post" action="/ui/actions/read-mode" {
                input type="hidden" name="namespace" value=(name);
                label for="mode" { "New mode" }
                select #mode name="mode" {
                    @for (mode, _, _) in LADDER {
                        option value=(mode.as_str_name()) selected[mode == current] { (mode.as_str_name()) }
                    }
                }
                label for="reason" { "Why, for those who look later" }
                input #reason name="reason" maxlength="200" autocomplete="off";
                p.more {
                    "It acts at once on this server and within a second on all others. EXEC and ON serve reads from pieces; OFF "
                    "stops all comparing."
                }
                button.primary type="submit" { "Yes, change it" }
            }
        }
    }
}

fn history(splits: &SplitUse) -> Markup {
    html! {
        h3 { "How it changed" }
        @if splits.history.is_empty() {
            p.more { "It is as it was made, since " (show::second(splits.since.as_ref())) "." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Changes of the read mode" #mode-history {
                table.cards {
                    (layout::columns(&["When", "From", "To", "By", "Why"]))
                    tbody {
                        @for change in &splits.history {
                            tr {
                                th scope="row" { (show::second(change.time.as_ref())) }
                                td data-label="From" { (badge(change.from())) }
                                td data-label="To" { (badge(change.to())) }
                                td data-label="By" { (show::one_line(&change.by)) }
                                td.prose data-label="Why" { (show::one_line(&change.reason)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
