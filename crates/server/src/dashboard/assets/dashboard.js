// Keeps a page live: the server draws it anew when something has changed, and this puts it in place without taking away what
// somebody is doing. Without this script every page still works; it has to be reloaded then.
"use strict";

(() => {
  const live = document.getElementById("live");
  const state = document.getElementById("live-state");
  const address = live && live.dataset.live;
  if (!address || !window.EventSource) return;

  let source = null;
  let waiting = null;
  let pressing = false;
  let again = null;
  let stale = null;

  // What isn't fresh any more stays in sight, wherever on the page somebody is.
  const say = (text, kind = "") => {
    if (!state) return;
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("live", kind === "live");
    state.classList.toggle("stale", kind === "stale");
  };
  const moment = () => `${new Date().toISOString().slice(11, 19)} UTC`;

  // Where no option is marked, a browser chooses the first.
  const isFilledIn = (field) =>
    field.matches("select")
      ? field.selectedIndex !== Math.max(0, Array.from(field.options).findIndex((option) => option.defaultSelected))
      : field.value !== field.defaultValue;

  // Somebody who answers a question, fills in a field, has filled it in, or is pressing a button is not to be interrupted.
  const isBusy = () => {
    const fields = Array.from(live.querySelectorAll("input:not([type=hidden]), select, textarea"));
    const typing = fields.some((field) => field === document.activeElement || isFilledIn(field));
    const chosen = window.getSelection();
    const selecting = chosen && !chosen.isCollapsed && live.contains(chosen.anchorNode);
    return pressing || typing || selecting || live.querySelector("details.ask[open]") !== null;
  };

  const focusable = () => Array.from(live.querySelectorAll("a, button, summary, [tabindex]"));

  const put = (html) => {
    const open = new Map(Array.from(live.querySelectorAll("details[id]"), (found) => [found.id, found.open]));
    const scrolled = new Map(Array.from(live.querySelectorAll(".scroll[id]"), (found) => [found.id, found.scrollLeft]));
    const focused = focusable().indexOf(document.activeElement);
    live.innerHTML = html;
    for (const [id, was] of open) { const found = document.getElementById(id); if (found) found.open = was; }
    for (const [id, left] of scrolled) { const found = document.getElementById(id); if (found) found.scrollLeft = left; }
    if (focused >= 0) { const found = focusable()[focused]; if (found) found.focus({ preventScroll: true }); }
  };

  const show = () => {
    if (waiting === null || stale) return;
    if (isBusy()) { say("Paused while you are busy here."); return; }
    put(waiting);
    waiting = null;
    say("Live", "live");
  };

  const stop = () => {
    clearTimeout(again);
    if (source) { source.close(); source = null; }
  };

  // A browser tries again by itself where a connection broke, but not where it was answered with something else.
  const lost = () => {
    if (!stale) stale = moment();
    const isRefused = source && source.readyState === EventSource.CLOSED;
    const reason = isRefused ? "The server has no room for another live page, or isn't ready" : "The server does not answer";
    say(`${reason}: this is how it was at ${stale}. Trying again.`, "stale");
    if (isRefused) { stop(); again = setTimeout(follow, 5000); }
  };

  const follow = () => {
    if (source || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("page", (event) => { stale = null; waiting = JSON.parse(event.data); show(); });
    source.addEventListener("trouble", (event) => {
      if (!stale) stale = moment();
      say(`This is how it was at ${stale}. It can't be drawn anew: ${JSON.parse(event.data)}`, "stale");
    });
    source.addEventListener("error", lost);
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", follow);
  live.addEventListener("focusout", () => setTimeout(show, 0));
  live.addEventListener("toggle", show, true);
  // The click comes between the end of pressing and what is put off here.
  const released = () => setTimeout(() => { pressing = false; show(); }, 0);
  live.addEventListener("pointerdown", () => { pressing = true; });
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, released);
  follow();
})();

// A wide drawing shows its newest end first.
for (const id of ["slice-axis", "strip"]) {
  const found = document.getElementById(id);
  if (found) found.scrollLeft = found.scrollWidth;
}
