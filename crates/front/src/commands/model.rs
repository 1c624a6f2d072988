//! `/model` and `/provider`: choose who answers.

use pollux_domain::event::{Op, OpResult};
use pollux_domain::model::Prices;
use pollux_domain::terminal_text::one_line;
use pollux_host::Loaded;
use pollux_host::model_list::{
    ModelRow, ProviderRow, known_models, local_servers, name_warning, served_models, unlisted_model,
    usable_providers,
};
use pollux_host::models::prices_as_of;
use pollux_host::request::Scope;

use crate::Front;
use crate::choice::{Choice, ChoiceRow, Chosen, ListKey, ListOptions, RowAction};
use crate::user_interface::UserInterface;

const USAGE: &str = "Usage: /model [<name>] [--persist]";
const AUTO: &str = "auto";
const GEMINI: &str = "gemini";
/// What a narrow list of models omits: the provider, which the name begins with, then price and window.
const NARROW: [usize; 3] = [1, 3, 2];

/// A list of models.
#[derive(Default)]
struct ModelDialog {
    title: &'static str,
    /// A list with headings is searched, one without is numbered.
    headings: Vec<&'static str>,
    rows: Vec<ChoiceRow>,
    foot: Option<String>,
}

/// The known models of all usable providers, and those that servers on this machine list.
async fn all_models(loaded: &Loaded) -> Vec<ModelRow> {
    let mut models = known_models(loaded);
    for server in local_servers(loaded).await {
        let served = served_models(loaded, &server).await.unwrap_or_default();
        models.retain(|known| served.iter().all(|row| row.name != known.name));
        models.extend(served);
    }
    models
}

fn model_row(row: &ModelRow) -> ChoiceRow {
    let name = match &row.stands_for {
        Some(id) => format!("{} ({id})", row.name),
        None => row.name.clone(),
    };
    let price = row.prices.as_ref().map_or_else(|| "unknown".to_owned(), price);
    let columns = vec![one_line(&name), row.provider_name.clone(), tokens(row.context), price];
    ChoiceRow { key: row.name.clone(), columns, ..ChoiceRow::default() }
}

/// A number of tokens, such as `200k` or `1M`.
fn tokens(count: u64) -> String {
    match count {
        1_000_000.. => format!("{}M", (count + 50_000) / 100_000 * 100_000 / 1_000_000),
        1_000.. => format!("{}k", count / 1_000),
        _ => count.to_string(),
    }
}

fn price(prices: &Prices) -> String {
    let usd = |micro: u64| {
        let text = format!("{}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000);
        text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
    };
    match (prices.input.0, prices.output.0) {
        (0, 0) => "free".to_owned(),
        (input, output) => format!("{} / {}", usd(input), usd(output)),
    }
}

/// Asks for one of the models that a server lists; its only one is taken without asking.
pub(super) async fn choose_served(
    loaded: &Loaded,
    provider: &ProviderRow,
    ui: &mut UserInterface,
) -> Option<String> {
    let models = match served_models(loaded, provider).await {
        Ok(models) => models,
        Err(failure) => {
            ui.error(&failure.message());
            return None;
        }
    };
    match models.as_slice() {
        [] => {
            ui.error(&format!("{} lists no models; install one first", provider.name));
            None
        }
        [only] => Some(only.name.clone()),
        _ => {
            let choice = Choice {
                rows: models.iter().map(model_row).collect(),
                headings: vec!["Model", "Provider", "Context", "Price"],
                options: ListOptions {
                    type_to_search: true,
                    optional_columns: &NARROW,
                    ..ListOptions::default()
                },
                ..Choice::of::<&str, &str>(&format!("Select Model · {}", provider.name), [])
            };
            ui.choose(choice).await.map(|chosen| chosen.key)
        }
    }
}

impl Front<'_, '_> {
    /// `/model`
    pub(super) async fn model(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) {
        let mut words = rest.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("manage"), None, _) => self.choose_model(conversation).await,
            (Some("set"), Some(name), kept @ (None | Some("--persist"))) if !name.starts_with('-') => {
                self.set_model(name, kept.is_some(), conversation).await;
            }
            (Some(name), kept @ (None | Some("--persist")), None)
                if !name.starts_with('-') && name != "set" =>
            {
                self.set_model(name, kept.is_some(), conversation).await;
            }
            _ => self.ui.note(USAGE),
        }
    }

    async fn choose_model(&mut self, conversation: &mut pollux_host::Conversation) {
        let mut kept = false;
        let models = all_models(self.turn.loaded).await;
        let mut rows: Vec<ChoiceRow> = models.iter().map(model_row).collect();
        // Automatic choice is Gemini's.
        if self.turn.credentials.auth.is_some() {
            let models = pollux_host::models(self.turn.loaded);
            let auto = models.iter().find(|(name, _)| name.starts_with(AUTO));
            let stands_for = auto.map(|(_, id)| id.as_str()).unwrap_or_default();
            let columns = vec![
                format!("{AUTO} (now {stands_for})"),
                "Gemini".to_owned(),
                String::new(),
                "by rules".to_owned(),
            ];
            rows.retain(|row| row.key != AUTO);
            rows.insert(0, ChoiceRow { key: AUTO.to_owned(), columns, ..ChoiceRow::default() });
        }
        if rows.iter().all(|row| row.key != self.model) && !self.model.starts_with(AUTO) {
            let columns = vec![one_line(&self.model), String::new(), String::new(), "unknown".to_owned()];
            rows.insert(0, ChoiceRow { key: self.model.clone(), columns, ..ChoiceRow::default() });
        }
        let list = ModelDialog {
            title: "Select Model",
            headings: vec!["Model", "Provider", "Context", "USD per 1M tokens, in / out"],
            rows,
            foot: Some(format!("List prices as of {}. Type to search.", prices_as_of())),
        };
        let marked = self.model.clone();
        if let Some(name) = self.remembering(&list, &marked, &mut kept).await {
            let is_gemini =
                name == AUTO || models.iter().any(|row| row.name == name && row.provider == GEMINI);
            let name = if is_gemini { self.gemini_name(&name) } else { name };
            self.set_model(&name, kept, conversation).await;
        }
    }

    /// A model of Gemini's by a name that leads there from every provider.
    fn gemini_name(&self, name: &str) -> String {
        let elsewhere = self.turn.credentials.auth.is_none() || self.model.contains('/');
        if elsewhere && !name.contains('/') { format!("{GEMINI}/{name}") } else { name.to_owned() }
    }

    /// `/provider`: switches to a provider's first model.
    pub(super) async fn provider(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) {
        let loaded = self.turn.loaded;
        let mut providers = usable_providers(loaded);
        for server in local_servers(loaded).await {
            if providers.iter().all(|known| known.id != server.id) {
                providers.push(server);
            }
        }
        let id = match rest.trim() {
            "" => {
                let rows = providers.iter().map(|row| ChoiceRow {
                    key: row.id.clone(),
                    columns: vec![row.name.clone(), row.key.clone(), row.model.clone().unwrap_or_default()],
                    ..ChoiceRow::default()
                });
                let current = self.model.split_once('/').map_or(GEMINI, |(id, _)| id).to_owned();
                let choice = Choice {
                    title: "Select Provider".to_owned(),
                    headings: vec!["Provider", "Key", "Model"],
                    rows: rows.collect(),
                    marked: Some(current),
                    foot: vec!["Add others: pollux providers add".to_owned()],
                    options: ListOptions { numbered: true, ..ListOptions::default() },
                    ..Choice::default()
                };
                let Some(chosen) = self.ui.choose(choice).await else { return };
                chosen.key
            }
            id => id.to_owned(),
        };
        let Some(provider) = providers.into_iter().find(|row| row.id == id) else {
            return self
                .ui
                .error(&format!("no usable provider `{}`; run /provider for a list", one_line(&id)));
        };
        let name = match provider.model.clone() {
            Some(_) if provider.id == GEMINI => Some(self.gemini_name(AUTO)),
            Some(model) => Some(model),
            None => choose_served(self.turn.loaded, &provider, self.ui).await,
        };
        if let Some(name) = name {
            self.set_model(&name, false, conversation).await;
        }
    }

    /// A list in which Tab toggles whether the choice is saved.
    async fn remembering(&mut self, list: &ModelDialog, marked: &str, kept: &mut bool) -> Option<String> {
        let mut marked = marked.to_owned();
        let searched = !list.headings.is_empty();
        loop {
            let remembered = format!("Remember model for future sessions: {kept} (Press Tab to toggle)");
            let choice = Choice {
                title: list.title.to_owned(),
                headings: list.headings.clone(),
                rows: list.rows.clone(),
                actions: vec![RowAction { key: ListKey::Tab, about: "toggle remembering", confirm: false }],
                marked: Some(marked),
                foot: list.foot.iter().cloned().chain([remembered]).collect(),
                hint: Some("(Use Enter to select, Esc to close)".to_owned()),
                options: ListOptions {
                    numbered: !searched,
                    type_to_search: searched,
                    optional_columns: &NARROW,
                    ..ListOptions::default()
                },
                ..Choice::default()
            };
            match self.ui.choose(choice).await? {
                Chosen { key, action: None } => return Some(key),
                Chosen { key, action: Some(_) } => {
                    *kept = !*kept;
                    marked = key;
                }
            }
        }
    }

    /// Sets the model from the next request on, and saves it if `kept`.
    async fn set_model(&mut self, asked: &str, kept: bool, conversation: &mut pollux_host::Conversation) {
        let name = match self.ask(Op::SetModel(asked.to_owned()), conversation).await {
            Some(OpResult::Model { name, .. }) => name,
            Some(OpResult::Refused(refusal)) => {
                let (reason, model) = (one_line(&refusal.message), one_line(&self.model));
                self.ui.error(&format!("{reason}. The model is still {model}."));
                if let Some(warning) = name_warning(self.turn.loaded, asked) {
                    self.ui.note(&warning);
                }
                return;
            }
            Some(_) | None => return,
        };
        let name = name.as_str();
        let asked = if name.contains('/') { name } else { asked };
        self.model = name.to_owned();
        let id = pollux_host::models(self.turn.loaded)
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, id)| id);
        let stands_for = id.filter(|id| id != name).map(|id| format!(" ({id})")).unwrap_or_default();
        let remembered = kept && self.keep_setting("model.name", asked, Scope::User);
        let kept = if remembered { ", and in future sessions" } else { "" };
        self.ui.note(&format!("Model set to {}{stands_for}{kept}", one_line(name)));
        let warning = name_warning(self.turn.loaded, asked);
        if let Some(warning) = warning.or_else(|| unlisted_model(self.turn.loaded, asked)) {
            self.ui.note(&warning);
        }
        self.show_session_facts(conversation).await;
    }

    /// The model and the used share of its context window.
    pub(super) async fn model_line(&mut self, conversation: &mut pollux_host::Conversation) -> String {
        let Some(view) = self.view(conversation).await else { return String::new() };
        let stands_for = match view.resolved_model == view.model {
            true => String::new(),
            false => format!(" ({})", view.resolved_model),
        };
        let share = (view.tokens * 100).checked_div(view.window).unwrap_or_default();
        format!("Model: {}{stands_for}, {share}% of {} tokens used", view.model, view.window)
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::model::MicroUsd;

    use super::*;

    #[test]
    fn windows_and_prices_are_short() {
        assert_eq!([200_000, 1_048_576, 922_000, 512].map(tokens), ["200k", "1M", "922k", "512"]);
        let prices = |input: u64, output: u64| Prices {
            input: MicroUsd(input),
            output: MicroUsd(output),
            cached: MicroUsd(0),
            cache_write: MicroUsd(0),
            above: None,
        };
        assert_eq!(price(&prices(2_000_000, 12_500_000)), "2 / 12.50");
        assert_eq!(price(&prices(0, 0)), "free");
    }
}
