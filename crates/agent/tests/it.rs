//! The loop against a scripted model, fake tools and a real session file.

mod it {
    mod calls;
    mod room;
    mod scene;
    mod steps;
}
