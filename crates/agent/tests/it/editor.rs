//! What the model is told of the user's editor.

use std::sync::{Arc, Mutex};

use pollux_domain::content::Role;
use pollux_domain::editor::{ActiveFile, EditorFiles, EditorView};
use pollux_domain::event::{Event, Op};

use super::scene::{Options, Scene, says};

#[derive(Default)]
struct Editor(Mutex<Option<Arc<EditorFiles>>>);

impl Editor {
    fn show(&self, path: &str) {
        let active = Some(ActiveFile { path: path.to_owned(), cursor: None, selection: None });
        *self.0.lock().unwrap() = Some(Arc::new(EditorFiles { active, others: Vec::new() }));
    }
}

impl EditorView for Editor {
    fn files(&self) -> Option<Arc<EditorFiles>> {
        self.0.lock().unwrap().clone()
    }
}

/// The user's texts of the last request, after the environment.
fn heard(scene: &Scene) -> Vec<String> {
    let requests = scene.model.requests.lock().unwrap();
    let contents = &requests.last().unwrap().contents;
    let of_user = contents.iter().skip(1).filter(|content| content.role == Role::User);
    of_user.map(|content| content.text()).collect()
}

async fn say(scene: &mut Scene, text: &str) {
    scene.send(text).await;
    scene.until(|event| matches!(event, Event::TurnEnded(_))).await;
}

#[tokio::test]
async fn the_editor_comes_before_the_prompt_in_full_once_and_is_not_recorded() {
    let editor = Arc::new(Editor::default());
    let lines = (0..5).map(|_| says("ok")).collect();
    let view = Some(Arc::clone(&editor) as Arc<dyn EditorView>);
    let mut scene = Scene::with(Options { lines, editor: view, ..Options::default() });
    say(&mut scene, "one").await;
    assert_eq!(heard(&scene), ["one"], "no editor is connected");

    editor.show("/w/a.rs");
    say(&mut scene, "two").await;
    let texts = heard(&scene);
    assert!(texts[1].starts_with("Here is the user's editor context") && texts[1].contains("/w/a.rs"));
    assert_eq!((texts.len(), texts[2].as_str()), (3, "two"));

    say(&mut scene, "three").await;
    assert_eq!(heard(&scene).len(), 4, "nothing changed");

    editor.show("/w/b.rs");
    say(&mut scene, "four").await;
    let texts = heard(&scene);
    assert!(texts[4].starts_with("Here is a summary of changes") && texts[4].contains("filesOpened"));

    // Going back takes the change along, so everything is said once more.
    let Event::PromptAccepted { message: Some(last), .. } =
        scene.events.iter().rfind(|event| matches!(event, Event::PromptAccepted { .. })).unwrap().clone()
    else {
        panic!("recorded")
    };
    scene.ask(Op::Rewind { to: last }).await;
    say(&mut scene, "five").await;
    let texts = heard(&scene);
    let full = texts.iter().filter(|text| text.starts_with("Here is the user's editor context")).count();
    assert_eq!((full, texts.last().unwrap().as_str()), (2, "five"));

    let files = std::fs::read_dir(scene.dir.path().join("chats")).unwrap();
    let recorded: String =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default()).collect();
    assert!(recorded.contains("four") && !recorded.contains("editor context"), "{recorded}");
}
