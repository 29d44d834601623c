//! `anabranch top` in a real terminal, made by `script`: it fits the window, says when the server is gone, ends with a key or
//! Ctrl-C, and gives the terminal back as it was.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use anabranch_runtime::Env;

use crate::harness::{BINARY, Place, Server, command};

const PATIENCE: Duration = Duration::from_secs(30);
/// What every picture begins with.
const HOME: &str = "\x1b[H";

/// A terminal in which `top` runs, and then says how it left it.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: mpsc::Receiver<String>,
    seen: String,
    env: Env,
}

impl Terminal {
    fn open(place: &Place, server: &Server<'_>) -> Terminal {
        let line = format!(
            "trap : INT; tty > tty.txt; stty rows 30 cols 100; {BINARY} top --interval 100ms; echo \"ended with $?\"; stty -a; echo over"
        );
        let mut script = Command::new("script");
        // Nothing of this machine's settings.
        for (name, value) in command(place.path()).get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script
            .args(["-qfec", &line, "/dev/null"])
            .current_dir(place.path())
            .env("ANABRANCH_SERVER", &server.grpc)
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`script` of util-linux is needed for a terminal");
        let (keys, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (show, shown) = mpsc::channel();
        let env = Env::system();
        let reading = move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                if show.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                    return;
                }
            }
        };
        env.thread("terminal", reading).unwrap();
        Terminal { child, keys, shown, seen: String::new(), env }
    }

    /// Waits until the terminal has shown what is asked for; answers all of it.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = self.env.monotonic();
        while !holds(&self.seen) {
            let left = PATIENCE.saturating_sub(self.env.monotonic() - begun);
            let more = self.shown.recv_timeout(left);
            self.seen.push_str(&more.unwrap_or_else(|_| panic!("never {what}: {:?}", self.seen)));
        }
        self.seen.clone()
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// How the terminal was left.
    fn end(mut self) -> String {
        let seen = self.until("given back", |seen| seen.contains("\nover"));
        drop(self.keys);
        self.child.wait().unwrap();
        // The line that was typed is not shown again, so these words are those of the shell.
        let after = seen.split("ended with ").nth(1).unwrap().to_owned();
        for restored in ["icanon", "echo", "isig"] {
            assert!(after.split_whitespace().any(|word| word == restored), "{restored} in {after}");
        }
        assert!(seen.contains("\x1b[?25h\x1b[?1049l"), "the cursor and the screen of before");
        after
    }
}

/// The last picture that is there as a whole.
fn picture(seen: &str) -> &str {
    let begun: Vec<&str> = seen.split(HOME).collect();
    begun.get(begun.len().wrapping_sub(2)).copied().unwrap_or_default()
}

#[test]
fn top_fits_its_window_and_ends_with_a_key() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut terminal = Terminal::open(&place, &server);
    terminal.until("drawn", |seen| picture(seen).contains("plays") && picture(seen).contains("sweep"));
    let tty = fs::read_to_string(place.path().join("tty.txt")).unwrap();
    let resized = Command::new("stty").args(["-F", tty.trim(), "rows", "5", "cols", "40"]).status().unwrap();
    assert!(resized.success());
    let small = terminal.until("smaller", |seen| picture(seen).contains("make the window higher"));
    assert_eq!(picture(&small).lines().count(), 5, "{:?}", picture(&small));
    terminal.press("x");
    terminal.press("q");
    assert!(terminal.end().starts_with('0'));
}

#[test]
fn top_outlives_its_server_sees_it_come_back_and_ends_with_ctrl_c() {
    let place = Place::new();
    let server = place.serve().with_namespace("plays");
    let mut terminal = Terminal::open(&place, &server);
    terminal.until("drawn", |seen| picture(seen).contains("plays"));
    let address = server.grpc.clone();
    server.kill();
    let gone = terminal.until("told", |seen| picture(seen).contains("the server doesn't answer"));
    assert!(picture(&gone).contains("plays"), "what was told last stays: {:?}", picture(&gone));
    let _again = place.serve_with(&["--grpc", address.strip_prefix("http://").unwrap()]).with_namespace("back");
    let back = terminal.until("told again", |seen| picture(seen).contains("back  "));
    assert!(!picture(&back).contains("doesn't answer"), "{:?}", picture(&back));
    terminal.press("\x03");
    assert!(terminal.end().starts_with('0'));
}
