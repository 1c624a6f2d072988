"use strict";
// Everything that a session says is shown as text: this script sets `textContent` and never parses HTML.

const MAX_ENTRIES = 600;
const MAX_TEXT = 200000;
const MAX_OUTPUT = 20000;
const MAX_DIFF_LINES = 3000;
/** A question takes no click for so long, because it may appear under the pointer. */
const STILL = 700;

const by = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 44rem)");

let session = null; // the one that is shown
let seq = null; // its last event
let connection = null;
let rights = { drive: false, approve: false };
let busy = false;
let answer = null; // the one that is being written
let calls = new Map();
let questions = new Map();
let asked = new Set(); // operations of this page
let known = [];

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  return made;
}

// Access

/** The key stays with this origin, which the cookie does not: browsers send it to all ports of a machine. */
const keys = {
  value: null,
  get() {
    try { return localStorage.getItem("key") || this.value; } catch { return this.value; }
  },
  set(value) {
    this.value = value;
    try { localStorage.setItem("key", value); } catch { /* kept for this tab */ }
  },
};

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Pollux": "1", "X-Pollux-Key": keys.get() || "-" },
    body: JSON.stringify(body),
  });
  let result = {};
  try { result = await response.json(); } catch { /* the status says enough */ }
  if (response.status === 401) signIn("You have been signed out.");
  if (!response.ok) throw new Error(result.error || `The core answered ${response.status}.`);
  return result;
}

function signIn(why) {
  connection?.abort();
  connection = null;
  by("app").hidden = true;
  by("online").hidden = true;
  by("sign-in").hidden = false;
  by("sign-in-why").textContent = why;
  by("sign-in-title").focus();
}

async function start() {
  const code = /^#c=([0-9a-zA-Z]+)$/.exec(location.hash);
  if (code) {
    // It must not stay in the history, even though it works only once.
    history.replaceState(null, "", "/");
    try {
      keys.set((await post("/api/login", { code: code[1] })).key);
    } catch (error) {
      return signIn(error.message);
    }
  }
  if (!keys.get()) return signIn("");
  by("sign-in").hidden = true;
  by("app").hidden = false;
  by("online").hidden = false;
  choose();
}

// Connection

function choose() {
  const named = /^#s=([A-Za-z0-9_-]+)$/.exec(location.hash);
  session = named ? named[1] : null;
  seq = null;
  document.body.classList.toggle("chosen", session !== null);
  by("session").hidden = true;
  by("nothing").hidden = session !== null;
  list();
  follow();
}

async function follow() {
  connection?.abort();
  const own = (connection = new AbortController());
  let delay = 500;
  let tries = 0;
  while (!own.signal.aborted) {
    try {
      const query = new URLSearchParams();
      if (session) query.set("session", session);
      if (session && seq !== null) query.set("after", seq);
      const response = await fetch(`/api/events?${query}`, {
        headers: { "X-Pollux-Key": keys.get() || "-" },
        signal: own.signal,
      });
      if (response.status === 401) return signIn("You have been signed out.");
      if (response.status === 404) {
        location.hash = "";
        return;
      }
      if (!response.ok) throw new Error();
      online(0);
      delay = 500;
      tries = 0;
      await read(response.body.getReader(), own);
    } catch { /* tried again */ }
    if (own.signal.aborted) return;
    online(++tries);
    await new Promise((done) => setTimeout(done, delay));
    delay = Math.min(delay * 2, 10000);
  }
}

async function read(reader, own) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done || own.signal.aborted) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)));
    }
  }
}

function online(tries) {
  const lost = tries < 5 ? "Connection lost, trying again…" : "Connection lost. If the core has stopped, run pollux web.";
  by("online").textContent = tries ? lost : "Connected";
  by("online").classList.toggle("lost", tries > 0);
}

// The list

const STATES = { idle: "idle", busy: "working", waiting: "waiting for you", ended: "ended", crashed: "crashed" };
const ORDER = ["waiting", "busy", "idle", "crashed", "ended"];

function name(of) {
  return of.title || of.folder.split("/").pop() || of.folder;
}

function list() {
  const rank = (of) => ORDER.indexOf(of.state);
  const sorted = [...known].sort((a, b) => rank(a) - rank(b) || b.active.localeCompare(a.active));
  const focused = document.activeElement?.getAttribute("href");
  by("sessions").replaceChildren(...sorted.map((of) => {
    const link = element("a");
    link.href = `#s=${of.session}`;
    if (of.session === session) link.setAttribute("aria-current", "page");
    link.append(
      element("b", "", name(of)),
      element("span", `state ${ORDER.includes(of.state) ? of.state : ""}`, STATES[of.state] || of.state),
      element("span", "", `${of.session.slice(0, 8)} · ${of.folder}`),
    );
    const item = element("li");
    item.append(link);
    return item;
  }));
  [...by("sessions").querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  by("none").hidden = known.length > 0;
  by("nothing").hidden = session !== null || known.length === 0;
  const waiting = known.filter((of) => of.state === "waiting").length;
  document.title = waiting ? `(${waiting}) Pollux: waiting for you` : "Pollux";
  const own = known.find((of) => of.session === session);
  if (own) by("title").textContent = name(own);
}

// Events

function take(event) {
  if (event.seq) seq = event.seq;
  handlers[event.kind]?.(event);
}

const handlers = {
  sessions(event) {
    known = event.sessions;
    if (!session && known.length === 1 && !narrow.matches) location.hash = `#s=${known[0].session}`;
    list();
  },
  attached(event) {
    rights = event;
    seq = event.seq;
    by("rights").hidden = event.drive;
    by("ask").hidden = !event.drive;
    if (event.fresh) {
      forget();
      facts = { folder: event.folder, model: event.model, mode: event.mode, sandbox: event.sandbox };
      if (event.above) add(element("p", "notice", `${event.above} earlier messages are not shown.`));
      event.history.forEach(take);
      event.state.forEach(take);
      work(event.busy);
    }
    by("title").textContent = by("title").textContent || event.session.slice(0, 8);
    const isNew = by("session").hidden;
    by("session").hidden = false;
    // The link that was followed is gone.
    if (isNew && narrow.matches) by("title").focus();
    describe();
    list();
    bottom(true);
  },
  prompt(event) {
    const entry = element("div", "prompt", event.text);
    if (event.by && !event.by.startsWith("web")) entry.prepend(element("small", "", `from ${event.by}`));
    settle();
    add(entry);
    if (event.seq) work(true);
  },
  answer(event) {
    const entry = element("div", "answer");
    prose(event.text, entry);
    add(entry);
  },
  step() {
    work(true, "Working…");
  },
  text(event) {
    if (!answer) {
      answer = element("div", "answer");
      answer.setAttribute("aria-busy", "true");
      answer.append(document.createTextNode(""));
      add(answer);
    }
    const text = answer.firstChild;
    const room = MAX_TEXT - text.length;
    if (room > 0) text.appendData(event.text.slice(0, room));
    if (event.text.length > room) answer.dataset.cut = "";
    work(true, "Writing…");
    bottom();
  },
  commit: () => settle(),
  discard(event) {
    answer?.remove();
    answer = null;
    status(event.text);
  },
  thought: (event) => status(event.text),
  call(event) {
    settle();
    calls.set(event.call, call(event.name, event.title, "", "…"));
  },
  past(event) {
    call(event.name, event.title, event.status, sign(event.status));
  },
  started(event) {
    const entry = calls.get(event.call);
    if (entry) entry.querySelector(".sign").textContent = "▶";
    work(true, "Running…");
  },
  output(event) {
    const text = content(event.call).firstChild;
    text.appendData(event.text);
    if (text.length > MAX_OUTPUT) text.deleteData(0, text.length - MAX_OUTPUT);
    content(event.call).scrollTop = 1e9;
    bottom();
  },
  screen(event) {
    content(event.call).firstChild.data = event.text;
    bottom();
  },
  finished(event) {
    const entry = calls.get(event.call);
    if (!entry) return;
    entry.classList.add(event.status);
    entry.querySelector(".sign").textContent = sign(event.status);
    entry.querySelector(".unseen").textContent = WORDS[event.status] || "";
    if (event.diff) {
      const lines = ` +${event.diff.added} −${event.diff.removed}`;
      entry.querySelector(".what").textContent = event.diff.path + lines;
      body(entry).replaceChildren(diff(event.diff.text));
      entry.open = true;
    } else if (event.text) {
      const was = entry.open;
      body(entry).replaceChildren(element("pre", "", event.text));
      entry.open = was || event.status !== "success";
    }
    if (event.message) {
      body(entry).prepend(element("p", "said", event.message));
      entry.open = true;
    }
    calls.delete(event.call);
    if (event.turn) work(false);
    bottom();
  },
  question(event) {
    settle();
    questions.get(event.call)?.remove();
    const entry = question(event);
    questions.set(event.call, entry);
    by("questions").append(entry);
    by("alert").textContent = `Waiting for your answer: ${event.title}`;
    work(true);
    reveal(entry);
  },
  settled(event) {
    questions.get(event.call)?.remove();
    questions.delete(event.call);
    by("alert").textContent = "";
    if (event.by && !event.by.startsWith("web")) {
      const how = event.outcome === "cancel" ? "refused" : "allowed";
      add(element("p", "notice", `${event.by} ${how} this call.`));
    }
    work(busy);
  },
  queue(event) {
    by("queue").hidden = event.prompts.length === 0;
    by("queue").replaceChildren(...event.prompts.map((prompt) => {
      const item = element("li");
      item.append(element("span", "", `Queued: ${prompt.text}`));
      if (rights.drive) {
        const remove = element("button", "", "Remove");
        remove.type = "button";
        remove.setAttribute("aria-label", `Remove the queued prompt ${prompt.text}`);
        remove.onclick = () => change("withdraw", { prompt: prompt.id });
        item.append(remove);
      }
      return item;
    }));
  },
  mode(event) { facts.mode = event.mode; describe(); },
  model(event) { facts.model = event.model; describe(); },
  title(event) { by("title").textContent = event.title; },
  notice(event) {
    add(element("p", `notice ${["warning", "error"].includes(event.severity) ? event.severity : ""}`, event.text));
  },
  refused(event) {
    if (asked.delete(event.id)) problem(event.text);
  },
  ended(event) {
    settle();
    if (event.text) handlers.notice(event);
    for (const entry of questions.values()) entry.remove();
    questions.clear();
    calls.clear();
    work(false);
  },
  over(event) {
    work(false);
    rights = { drive: false, approve: false };
    by("ask").hidden = true;
    const why = { crashed: "The session crashed.", unloaded: "The core closed this idle session." };
    const text = why[event.reason] || "The session was closed.";
    add(element("p", "notice warning", `${text} It is saved. To resume it, run: pollux attach ${session}`));
  },
};

// The session

let facts = {};

function describe() {
  const shown = [facts.model, `${facts.mode} mode`, facts.sandbox, facts.folder];
  by("facts").textContent = shown.filter(Boolean).join(" · ");
}

function forget() {
  by("log").replaceChildren();
  by("questions").replaceChildren();
  by("queue").hidden = true;
  by("title").textContent = "";
  by("alert").textContent = "";
  answer = null;
  calls = new Map();
  questions = new Map();
  problem("");
}

function status(text) {
  by("status").textContent = text;
}

function work(is, text) {
  busy = is;
  by("stop").disabled = !is;
  by("send").textContent = is ? "Queue" : "Send";
  by("status").classList.toggle("working", is && questions.size === 0);
  if (questions.size) status("Waiting for your answer");
  else if (text || !is) status(text || "");
  else if (!by("status").textContent) status("Working…");
}

function problem(text) {
  by("problem").textContent = text;
  by("problem").hidden = !text;
}

function add(entry) {
  const log = by("log");
  log.append(entry);
  while (log.childElementCount > MAX_ENTRIES) log.firstElementChild.remove();
  bottom();
}

let follows = true;
by("scroll").addEventListener("scroll", () => {
  const place = by("scroll");
  follows = place.scrollHeight - place.scrollTop - place.clientHeight < 60;
});

new ResizeObserver(() => bottom()).observe(by("scroll"));

/** Stays at the end, unless the user reads further up. */
function bottom(anyway) {
  if (anyway) follows = true;
  if (follows) by("scroll").scrollTop = by("scroll").scrollHeight;
}

/** Shows a question from its beginning. */
function reveal(entry) {
  const isTall = entry.offsetHeight > by("scroll").clientHeight;
  if (follows && isTall) entry.scrollIntoView({ block: "start" });
  else bottom();
}

/** The answer is complete: its marks become a layout. */
function settle() {
  if (!answer) return;
  const text = answer.firstChild.data;
  answer.replaceChildren();
  prose(text, answer);
  if ("cut" in answer.dataset) answer.append(element("p", "notice", "The rest of this answer is not shown."));
  answer.removeAttribute("aria-busy");
  answer = null;
  bottom();
}

function sign(of) {
  return of === "success" ? "✓" : "✕";
}

function call(title, about, className, mark) {
  const entry = element("details", `call empty ${className}`);
  const line = entry.appendChild(element("summary"));
  line.tabIndex = -1;
  line.onclick = (event) => {
    if (entry.classList.contains("empty")) event.preventDefault();
  };
  const icon = element("span", "sign", mark);
  icon.setAttribute("aria-hidden", "true");
  const word = element("span", "unseen", WORDS[className] || "");
  line.append(icon, word, element("span", "name", title), element("span", "what", about));
  add(entry);
  return entry;
}

const WORDS = { success: "done:", error: "failed:", cancelled: "cancelled:" };

/** The part of a call that can be opened; made when there is something to show. */
function body(entry) {
  entry.classList.remove("empty");
  entry.querySelector("summary").tabIndex = 0;
  return entry.querySelector(".body") || entry.appendChild(element("div", "body"));
}

/** Where the output of a running call goes. */
function content(id) {
  let entry = calls.get(id);
  if (!entry) {
    entry = call("", "", "", "▶");
    calls.set(id, entry);
  }
  let place = entry.querySelector(".body pre");
  if (!place) {
    place = element("pre");
    place.append(document.createTextNode(""));
    body(entry).append(place);
    entry.open = true;
  }
  return place;
}

function diff(text) {
  const place = element("pre", "diff");
  place.tabIndex = 0;
  const lines = text.replace(/\n$/, "").split("\n");
  // The title names the file.
  lines.splice(0, Math.max(0, lines.findIndex((line) => line.startsWith("@@"))));
  for (const line of lines.slice(0, MAX_DIFF_LINES)) {
    const kind = { "+": "add", "-": "del", "@": "hunk" }[line[0]] || "";
    place.append(element("span", kind, line || " "));
  }
  if (lines.length > MAX_DIFF_LINES) place.append(document.createTextNode(lines.slice(MAX_DIFF_LINES).join("\n")));
  return place;
}

/** Shows paragraphs, lists, headings, code and bold text. Links stay text. */
function prose(text, place) {
  let code = null;
  let items = null;
  let lines = [];
  const flush = () => {
    if (lines.length) inline(lines.join("\n"), place.appendChild(element("p")));
    lines = [];
    items = null;
  };
  for (const line of text.split("\n")) {
    if (/^\s*```/.test(line)) {
      if (code) place.append(element("pre", "", code.join("\n")));
      else flush();
      code = code ? null : [];
    } else if (code) {
      code.push(line);
    } else if (!line.trim()) {
      flush();
    } else if (/^#{1,6} /.test(line)) {
      flush();
      inline(line.replace(/^#+ /, ""), place.appendChild(element("h4")));
    } else if (/^\s{0,3}[-*] /.test(line)) {
      if (!items) {
        flush();
        items = place.appendChild(element("ul"));
      }
      inline(line.replace(/^\s*[-*] /, ""), items.appendChild(element("li")));
    } else {
      if (items) flush();
      lines.push(line);
    }
  }
  if (code) place.append(element("pre", "", code.join("\n")));
  flush();
}

function inline(text, place) {
  for (const piece of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (/^`[^`]+`$/.test(piece)) place.append(element("code", "", piece.slice(1, -1)));
    else if (/^\*\*[^*]+\*\*$/.test(piece)) place.append(element("strong", "", piece.slice(2, -2)));
    else if (piece) place.append(document.createTextNode(piece));
  }
}

// Questions

let count = 0;

function question(event) {
  const entry = element("form", "question");
  const title = element("h3", "", event.title);
  title.id = `question-${++count}`;
  title.prepend(element("small", "", `Waiting for your answer · ${event.tool}`));
  entry.setAttribute("aria-labelledby", title.id);
  entry.append(title);
  if (event.warning) entry.append(element("p", "warning", event.warning));
  if (event.diff) entry.append(diff(event.diff));
  if (event.body) {
    const text = entry.appendChild(element("pre", "", event.body));
    text.tabIndex = 0;
  }
  if (event.why.length) {
    const why = element("details");
    why.append(element("summary", "", "Why am I asked?"), ...event.why.map((text) => element("p", "", text)));
    entry.append(why);
  }
  const decide = async (outcome, more) => {
    entry.querySelectorAll("button").forEach((button) => { button.disabled = true; });
    if (!await change("decide", { call: event.call, version: event.version, outcome, ...more })) {
      entry.querySelectorAll("button").forEach((button) => { button.disabled = false; });
    }
  };
  entry.onsubmit = (submitted) => submitted.preventDefault();
  if (!rights.approve) return entry;
  const buttons = element("div", "buttons");
  const button = (label, covers, isMain, action) => {
    const made = buttons.appendChild(element("button", isMain ? "main" : "", label));
    made.type = "button";
    if (covers) made.append(element("small", "", covers));
    made.disabled = true;
    setTimeout(() => { made.disabled = false; }, STILL);
    made.onclick = action;
  };
  if (event.questions.length) {
    const fields = event.questions.map((asks, at) => field(asks, `${title.id}-${at}`));
    entry.append(...fields.map((made) => made.place));
    button("Answer", "", true, () => decide("proceed_once", { replies: fields.map((made) => made.value()) }));
    button("Decline", "", false, () => decide("cancel", {}));
  } else {
    const instead = entry.appendChild(element("input"));
    instead.type = "text";
    instead.placeholder = "What to do instead, if you refuse";
    instead.setAttribute("aria-label", instead.placeholder);
    for (const offer of event.offers.filter((offered) => offered.outcome !== "cancel")) {
      const isMain = offer.outcome === "proceed_once" && !event.warning;
      button(offer.label, offer.covers, isMain, () => decide(offer.outcome, {}));
    }
    button("Refuse", "", Boolean(event.warning), () => decide("cancel", { message: instead.value }));
  }
  entry.append(buttons);
  return entry;
}

function field(asks, id) {
  const place = element("fieldset");
  place.append(element("legend", "", asks.header ? `${asks.header}: ${asks.text}` : asks.text));
  const own = element("input");
  own.type = "text";
  own.setAttribute("aria-label", asks.form === "text" ? asks.text : "Another answer");
  own.placeholder = asks.form === "text" ? asks.options[0].label : "Another answer";
  const choices = asks.form === "text" ? [] : asks.options.map((option) => {
    const label = element("label");
    const input = element("input");
    input.type = asks.form === "several" ? "checkbox" : "radio";
    input.name = id;
    label.append(input, ` ${option.label} `);
    if (option.description) label.append(element("small", "", option.description));
    place.append(label);
    return { input, label: option.label };
  });
  place.append(own);
  const value = () => {
    const chosen = choices.filter((choice) => choice.input.checked).map((choice) => choice.label);
    return own.value.trim() || chosen.join(", ");
  };
  return { place, value };
}

// What the user does

async function change(what, params) {
  problem("");
  try {
    asked.add((await post(`/api/sessions/${session}/${what}`, params)).id);
    return true;
  } catch (error) {
    problem(error.message);
    return false;
  }
}

by("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = by("prompt").value;
  if (!text.trim()) return;
  by("prompt").value = "";
  bottom(true);
  if (!await change("prompt", { text })) by("prompt").value = by("prompt").value || text;
});

by("prompt").addEventListener("keydown", (event) => {
  const isTouch = matchMedia("(pointer: coarse)").matches;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !isTouch) {
    event.preventDefault();
    by("ask").requestSubmit();
  }
});

by("stop").addEventListener("click", () => change("stop", {}));
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#c=")) start();
  else if (connection || session) choose();
});
start();
