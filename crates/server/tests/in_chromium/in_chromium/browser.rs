//! A headless Chromium, spoken to through a pair of pipes in its DevTools protocol: JSON messages, each ended by a zero byte.
//! It ends when the pipes do, so with the test's process however that ends.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anabranch_runtime::Env;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// As root there is no sandbox to be had, and nothing may be asked of the world outside.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars \
                     --remote-debugging-pipe";

#[derive(Clone, Copy)]
pub(super) enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        }
    }
}

/// One page of one browser.
pub(super) struct Browser {
    env: Env,
    process: Child,
    to: pipe::Sender,
    from: BufReader<pipe::Receiver>,
    next: u64,
    session: Option<String>,
    complaints: Vec<String>,
    pictures: Option<PathBuf>,
    _place: TempDir,
}

impl Browser {
    pub(super) async fn start() -> Browser {
        let place = TempDir::new().unwrap();
        let (to, from) = (place.path().join("to"), place.path().join("from"));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // Both ways open on both ends, so that nobody waits for the other.
        let options = || pipe::OpenOptions::new().read_write(true).to_owned();
        let (sender, receiver) = (options().open_sender(&to).unwrap(), options().open_receiver(&from).unwrap());
        let line =
            format!("exec chromium {FLAGS} --user-data-dir=\"$0/profile\" about:blank 3<\"$0/to\" 4>\"$0/from\"");
        let process = Command::new("sh")
            .args(["-c", &line])
            .arg(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pictures = std::env::var_os("ANABRANCH_PICTURES").map(PathBuf::from);
        let mut browser = Browser {
            env: Env::system(),
            process,
            to: sender,
            from: BufReader::new(receiver),
            next: 0,
            session: None,
            complaints: Vec::new(),
            pictures,
            _place: place,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach).await;
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser.show_as(1280, Scheme::Light).await;
        browser
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a command and waits for its answer; what happens meanwhile is taken down.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let env = self.env.clone();
        let work = async {
            self.to.write_all(&bytes).await.unwrap();
            loop {
                let mut answer = Vec::new();
                self.from.read_until(0, &mut answer).await.unwrap();
                answer.pop();
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                if answer["id"] == id {
                    return if answer["error"].is_null() {
                        Ok(answer["result"].clone())
                    } else {
                        Err(answer["error"].clone())
                    };
                }
                self.complaints.extend(complaint(&answer));
            }
        };
        env.timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("Chromium doesn't answer {method}"))
    }

    /// Width of the window, and what the reader prefers.
    pub(super) async fn show_as(&mut self, width: u32, scheme: Scheme) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme.name()}]});
        self.call("Emulation.setEmulatedMedia", features).await;
    }

    /// Opens an address and waits until everything is there.
    pub(super) async fn open(&mut self, url: &str) {
        self.evaluate("window.left = true").await;
        let opened = self.call("Page.navigate", json!({"url": url})).await;
        assert_eq!(opened["errorText"], Value::Null, "{url}");
        self.until("window.left === undefined && document.readyState === 'complete'").await;
    }

    /// What a script finds on the page. One that was asked while the page gave way to the next is asked of the next.
    pub(super) async fn evaluate(&mut self, script: &str) -> Value {
        let begun = self.env.monotonic();
        loop {
            let params = json!({"expression": script, "returnByValue": true});
            match self.ask("Runtime.evaluate", params).await {
                Ok(result) => {
                    assert_eq!(result["exceptionDetails"], Value::Null, "{script}");
                    return result["result"]["value"].clone();
                }
                Err(error) if gave_way(&error) && self.env.monotonic() - begun < PATIENCE => {}
                Err(error) => panic!("{script}: {error}"),
            }
        }
    }

    /// Waits until something holds. A page that is on its way holds nothing.
    pub(super) async fn until(&mut self, script: &str) {
        let begun = self.env.monotonic();
        let tried = format!("(() => {{ try {{ return !!({script}) }} catch {{ return false }} }})()");
        while self.evaluate(&tried).await != true {
            let page = self.evaluate("document.body?.innerText ?? ''").await;
            assert!(self.env.monotonic() - begun < PATIENCE, "never: {script}\n{page}");
            self.env.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Clicks where something is, as a person does; again where a page that is live has moved it away meanwhile.
    pub(super) async fn click(&mut self, selector: &str) {
        let begun = self.env.monotonic();
        let quoted = Value::from(selector);
        let script = format!(
            "(() => {{ window.hit = false; \
             addEventListener('click', (event) => {{ window.hit ||= event.target.closest({quoted}) !== null }}, true); \
             const found = document.querySelector({quoted}); found.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] }})()"
        );
        loop {
            let place = self.evaluate(&script).await;
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
                self.call("Input.dispatchMouseEvent", event).await;
            }
            // The next page knows nothing of it.
            if self.evaluate("window.hit !== false").await == true {
                return;
            }
            assert!(self.env.monotonic() - begun < PATIENCE, "{selector} can't be hit");
        }
    }

    pub(super) async fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    pub(super) async fn press(&mut self, key: &str) {
        let code = if key == "Tab" { 9 } else { 13 };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { text } else { "" }});
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// What the browser complained of since the last time.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// A picture of the whole page, where pictures are wanted.
    pub(super) async fn picture(&mut self, name: &str) {
        let Some(folder) = self.pictures.clone() else { return };
        let size = self.call("Page.getLayoutMetrics", json!({})).await["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", params).await;
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    pub(super) async fn close(mut self) {
        self.session = None;
        self.call("Browser.close", json!({})).await;
        self.process.wait().unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // One that was closed is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The page that was asked went away before it answered.
fn gave_way(error: &Value) -> bool {
    let why = error["message"].as_str().unwrap_or_default();
    ["Inspected target navigated", "Execution context was destroyed", "Cannot find default execution context"]
        .iter()
        .any(|known| why.starts_with(known))
}

/// An error on the console, an exception, something that could not be loaded or was forbidden.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "assert" => {
            Some(params.to_string())
        }
        "Runtime.exceptionThrown" => Some(params.to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params.to_string()),
        _ => None,
    }
}
