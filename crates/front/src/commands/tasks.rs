//! `/tasks`: list and kill background processes.

use pollux_domain::terminal_text::{one_line, visible};

use pollux_host::Task;

use crate::Front;
use crate::choice::{Choice, ChoiceRow, ListKey, RowAction};

const END: RowAction = RowAction { key: ListKey::Char('k'), about: "kill it", confirm: true };

impl Front<'_, '_> {
    /// Shows the background processes while a turn runs.
    pub(crate) fn note_tasks(&mut self, tasks: &[Task]) {
        if tasks.is_empty() {
            self.ui.note("No background processes.");
        }
        for task in tasks {
            let heading = format!("{} ({}): {}", task.pid, task.state, one_line(&task.command));
            let tail = visible(&task.tail.join("\n")).into_owned();
            self.ui.note(format!("{heading}\n{tail}").trim_end());
        }
    }

    pub(super) async fn tasks(&mut self, conversation: &pollux_host::Conversation) {
        let mut marked = None;
        loop {
            let tasks = conversation.tasks();
            if tasks.is_empty() {
                self.ui.close_list();
                self.ui.note("No background processes.");
                return;
            }
            let rows = tasks.iter().map(|task| ChoiceRow {
                key: task.pid.to_string(),
                columns: vec![task.pid.to_string(), task.state.clone(), one_line(&task.command)],
                preview: task.tail.iter().map(|line| visible(line).into_owned()).collect(),
                ..ChoiceRow::default()
            });
            let choice = Choice {
                title: "Background processes".to_owned(),
                headings: vec!["Process", "State", "Command"],
                rows: rows.collect(),
                actions: vec![END],
                marked: marked.take(),
                ..Choice::default()
            };
            let Some(chosen) = self.ui.choose(choice).await else { return };
            let pid = chosen.key.parse().unwrap_or_default();
            if chosen.action.is_none() {
                self.ui.close_list();
                let task = tasks.iter().find(|task| task.pid == pid);
                let tail = task.map(|task| task.tail.join("\n")).unwrap_or_default();
                let command = task.map(|task| one_line(&task.command)).unwrap_or_default();
                self.ui.note(&format!("{command}\n{}", visible(&tail)));
                return;
            }
            let ended = conversation.end_task(pid).await;
            self.ui.note(&match ended {
                true => format!("Process {pid} killed."),
                false => format!("Process {pid} has already exited."),
            });
            marked = Some(chosen.key);
        }
    }
}
