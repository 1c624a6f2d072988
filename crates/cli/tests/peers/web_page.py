"""Uses the page of `pollux web` in a real browser: python web_page.py CHROMIUM URL SCENARIO [PICTURES].

Prints a line for everything that the test looks at. With a folder for PICTURES, it draws them.
"""

import http.server
import sys
import threading
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

chromium, url, scenario = sys.argv[1:4]
pictures = Path(sys.argv[4]) if len(sys.argv) > 4 else None
origin = url.split("/#")[0]
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


def new_page(context):
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: print("script error:", error))
    page.on("console", lambda said: print("console:", said.text) if said.type == "error" else None)
    page.on("request", lambda asked: asked.url.startswith(origin) or print("elsewhere:", asked.url))
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective))"
    )
    return page


def opened(page, link=url):
    page.goto(link)
    expect(page.locator("#online")).to_have_text("Connected")
    expect(page.locator("#session")).to_be_visible()
    print("address", page.url.replace(origin, "").split("=")[0])
    return page


def prompt(page, text):
    page.locator("#prompt").fill(text)
    page.keyboard.press("Enter")


# Names that a scratch folder has, and those of the pictures.
NAMES = [
    ["/tmp/[^ ]*/project", "/home/me/shop"],
    ["^project$", "shop"],
    ["^[0-9a-f]{8} ", "3f2a91c0 "],
    ["test-model", "gemini-2.5-pro"],
]


def draw(page, name):
    if not pictures:
        return
    before = page.viewport_size
    rename = """(names) => document.querySelectorAll('nav b, nav span, #title, #facts').forEach((e) => {
        for (const [found, better] of names) e.textContent = e.textContent.replace(new RegExp(found), better);
    })"""
    for width, height in ((1200, 800), (360, 740)):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            page.mouse.move(width - 5, 5)
            page.locator("#prompt").blur()
            page.evaluate(rename, NAMES)
            page.screenshot(path=pictures / f"{name}-{scheme}-{width}.png", animations="disabled")
    page.set_viewport_size(before)
    page.emulate_media(color_scheme="light")


def use(context):
    """A prompt, an answer in one of two tabs, a refusal, and a stop."""
    page, other = opened(new_page(context)), new_page(context)
    other.goto(page.url)
    prompt(page, "The total of the cart is wrong. Please fix it.")
    expect(other.locator(".prompt")).to_have_text("The total of the cart is wrong. Please fix it.")
    for tab in (page, other):
        expect(tab.locator(".question h3")).to_contain_text("Edit cart.py")
        expect(tab.locator(".question .diff .add")).to_have_count(1)
        expect(tab.locator("nav .waiting")).to_have_text("waiting for you")
    print("title", page.title())
    draw(page, "web")
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(other.locator("details.call.success .diff .add")).to_be_visible()
    expect(page.locator(".question h3")).to_contain_text("Run in")
    expect(page.locator(".question pre")).to_contain_text("rm -r build")
    page.get_by_label("What to do instead").fill("keep it")
    page.get_by_role("button", name="Refuse").click()
    expect(other.locator(".question")).to_have_count(0)
    expect(page.locator(".answer").last).to_contain_text("I kept it.")
    expect(page.locator(".answer code").last).to_have_text("build")
    expect(page.locator("#stop")).to_be_disabled()
    prompt(page, "wait")
    expect(page.locator("#status")).to_contain_text("Working")
    prompt(page, "later")
    expect(other.locator("#queue li")).to_contain_text("later")
    other.get_by_role("button", name="Remove the queued prompt later").click()
    expect(page.locator("#queue")).to_be_hidden()
    page.locator("#stop").click()
    expect(other.locator(".notice").last).to_have_text("Stopped.")
    # What was said is there again after a reload.
    page.reload()
    expect(page.locator(".prompt").first).to_contain_text("The total of the cart")
    print("done")


def questions(context):
    """The model asks, and the user chooses and writes."""
    page = opened(new_page(context))
    prompt(page, "ask me")
    expect(page.locator(".question legend")).to_have_text(["Colour: Which colour?", "Reason: Why?"])
    page.get_by_label("blue <i>cold</i>").check()
    page.get_by_label("Why?").last.fill("the sky")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".answer").last).to_contain_text("thanks")
    print("done")


def keyboard(context):
    """A narrow screen, and nothing but keys."""
    page = new_page(context)
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(url)
    page.locator("nav a").first.wait_for()
    tab_to(page, "a")
    page.keyboard.press("Enter")
    expect(page.locator("#session")).to_be_visible()
    tab_to(page, "#prompt")
    page.keyboard.type("go")
    page.keyboard.press("Enter")
    expect(page.locator(".question .main")).to_be_enabled()
    print("too wide", page.evaluate("document.documentElement.scrollWidth > innerWidth"))
    print("focus", page.evaluate("document.activeElement.id"))
    print("alert", page.locator("#alert").text_content())
    tab_to(page, ".question .main")
    page.keyboard.press("Enter")
    expect(page.locator(".answer").last).to_contain_text("finished")
    unnamed = """[...document.querySelectorAll('button, a, input, textarea')].filter((e) => e.offsetParent
        && !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length"""
    print("unnamed", page.evaluate(unnamed))
    print("done")


def tab_to(page, selector):
    for _ in range(60):
        if page.evaluate("(s) => document.activeElement.matches(s)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no key leads to {selector}")


def watch(context):
    """A page that may only watch, while a question is open."""
    page = opened(new_page(context))
    expect(page.locator(".question")).to_be_visible()
    expect(page.locator("#rights")).to_be_visible()
    print("buttons", page.locator("button:visible").count(), "forms", page.locator("#ask:visible").count())
    said = page.evaluate(
        """async () => (await fetch(`/api/sessions/${location.hash.slice(3)}/decide`, {method: 'POST',
        headers: {'Content-Type': 'application/json', 'X-Pollux': '1', 'X-Pollux-Key': localStorage.getItem('key')},
        body: JSON.stringify({call: 'x', outcome: 'proceed_once'})})).status"""
    )
    print("status", said)
    print("done")


def hostile(context):
    """A model that would like to run scripts."""
    page = opened(new_page(context))
    prompt(page, "<b>go</b>")
    expect(page.locator("#stop")).to_be_disabled()
    expect(page.locator(".answer").last).to_contain_text("the end")
    text = page.locator("#log").text_content()
    for part in ("<script>", "javascript:alert", "<img src=x onerror=", "<b>go</b>"):
        print("shown", part in text)
    print("ran", page.evaluate("window.hacked"), "links", page.locator("#log a, #log img, #log script").count())
    print("escapes", "\x1b" in text, "long", len(text) < 2_000_000)
    prompt(page, "still there?")
    expect(page.locator(".answer").last).to_contain_text("yes")
    print("done")


PAGE = """<!doctype html><title>elsewhere</title>
<form id=f method=post enctype=text/plain target=t action="{origin}/api/sessions/{session}/prompt">
<input name='{{"text":"forged","x":"' value='"}}'></form><iframe name=t></iframe><img id=i src="{origin}/api/sessions/{session}/stop">
<iframe id=p src="{origin}/"></iframe>"""


def elsewhere(context):
    """A page of another origin, in a browser that is signed in."""
    page = opened(new_page(context))
    session = page.url.split("#s=")[1]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cookies = self.headers.get("Cookie", "")
            print("cookie seen elsewhere", "pollux_" in cookies)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.format(origin=origin, session=session).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    other = context.new_page()
    statuses = {}
    other.on("response", lambda got: statuses.__setitem__(got.url.replace(origin, ""), got.status))
    other.goto(f"http://127.0.0.1:{server.server_port}/")
    with other.expect_response(lambda got: got.url.endswith("/prompt")):
        other.evaluate("document.getElementById('f').submit()")
    forged = """async ([origin, session]) => {
      const tried = [];
      for (const options of [{mode: 'cors'}, {mode: 'no-cors', credentials: 'include'}, {mode: 'cors', credentials: 'include'}]) {
        const headers = options.mode === 'cors' ? {'Content-Type': 'application/json', 'X-Pollux': '1'} : {};
        try {
          const got = await fetch(`${origin}/api/sessions/${session}/prompt`, {method: 'POST', body: '{"text":"forged"}', headers, ...options});
          tried.push(got.type);
        } catch { tried.push('blocked'); }
        try { await fetch(`${origin}/api/events`, {credentials: 'include'}); tried.push('read'); } catch { tried.push('blocked'); }
      }
      return tried.join(' ');
    }"""
    print("tried", other.evaluate(forged, [origin, session]))
    print("form", statuses.get(f"/api/sessions/{session}/prompt"))
    print("framed", other.evaluate("document.getElementById('p').contentDocument === null"))
    # The page itself goes on.
    prompt(page, "mine")
    expect(page.locator(".answer").last).to_contain_text("yours")
    print("prompts", page.locator(".prompt").count())
    print("done")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    scenarios = [use, questions, keyboard, watch, hostile, elsewhere]
    next(known for known in scenarios if known.__name__ == scenario)(browser.new_context(viewport={"width": 1200, "height": 800}))
    browser.close()
