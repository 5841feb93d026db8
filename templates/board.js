// What the pages do more where scripts run: new failures appear, times can be local.
// Everything else works without this file. Text of others is set as text, never as markup.
"use strict";

(() => {
  const main = document.getElementById("main");

  // On a phone the navigation is wider than the screen.
  document.querySelector(".top [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});

  // Local times.
  const KEY = "firstfault.local-times";
  const button = document.querySelector("[data-local-times]");
  const format = new Intl.DateTimeFormat("sv-SE", {dateStyle: "short", timeStyle: "short"});
  const remembered = {
    get: () => { try { return localStorage.getItem(KEY) === "1"; } catch { return false; } },
    set: on => { try { localStorage.setItem(KEY, on ? "1" : "0"); } catch { /* not allowed */ } },
  };
  let local = remembered.get();

  function showTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      each.dataset.utc ??= each.textContent;
      const here = format.format(at);
      each.textContent = local ? here : each.dataset.utc;
      each.title = local ? `${each.dataset.utc} UTC` : `${here} local time`;
    }
    for (const each of root.querySelectorAll("[data-zone]")) each.textContent = local ? "local" : "UTC";
  }

  if (button) {
    const name = () => { button.textContent = local ? "show UTC" : "show my local time"; };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      local = !local;
      remembered.set(local);
      name();
      showTimes(document);
    });
  }
  showTimes(document);

  // A form whose answer takes a while says so, and is not sent twice.
  for (const form of document.querySelectorAll("form[data-busy]")) {
    const sends = form.querySelector("button.primary");
    const usual = sends.textContent;
    form.addEventListener("submit", () => { sends.disabled = true; sends.textContent = form.dataset.busy; });
    window.addEventListener("pageshow", () => { sends.disabled = false; sends.textContent = usual; });
  }

  // New failures.
  const kind = main.dataset.live;
  const notice = document.querySelector(".live");
  if (!kind || !notice || !window.EventSource) return;
  const MOST = 20, AGAIN_MS = 10000, REFUSED_MS = 60000;
  const query = main.dataset.query;
  const shown = () => [...document.querySelectorAll("[data-newest] [data-key]")].map(row => row.dataset.key);
  const known = new Set(shown());
  let source = null, updatedAt = 0, waits = null, seen = null;

  // Those that stand before the last one that the page knows: what comes after is only older.
  function unknown(keys) {
    const last = keys.findLastIndex(key => known.has(key));
    const reached = last < 0 ? keys : keys.slice(0, last);
    return reached.filter(key => !known.has(key));
  }

  function tell(count) {
    notice.replaceChildren();
    notice.hidden = count === 0;
    if (count === 0) return;
    const number = count < MOST ? String(count) : `${MOST} or more`;
    const link = document.createElement("a");
    link.href = location.pathname + (kind === "overview" ? location.search : query && `?${query}`);
    link.textContent = kind === "overview" ? "Bring the figures up to date" : "Show";
    notice.append(`${number} new ${count === 1 ? "failure" : "failures"}. `, link);
  }

  async function update() {
    waits = null;
    updatedAt = Date.now();
    const old = document.querySelector("[data-newest]");
    const answer = await fetch(`/live/newest?${query}`, {credentials: "same-origin"});
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-newest]");
    // Nobody's place in the list is taken from under them.
    if (!fresh || !old || old.contains(document.activeElement)) return;
    for (const row of fresh.querySelectorAll("[data-key]")) {
      if (!known.has(row.dataset.key)) row.classList.add("fresh");
    }
    const section = document.importNode(fresh, true);
    showTimes(section);
    old.replaceWith(section);
  }

  function heard(event) {
    const count = unknown(JSON.parse(event.data)).length;
    const isFirst = seen === null;
    tell(count);
    if (event.lastEventId === seen) return;
    seen = event.lastEventId;
    if (kind !== "overview" || (isFirst && count === 0)) return;
    // Of many at once the last is enough.
    waits ??= setTimeout(() => update().catch(() => {}), Math.max(0, updatedAt + AGAIN_MS - Date.now()));
  }

  // A browser has few connections for one host: a page that nobody sees holds none.
  function listen() {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source || source.readyState === EventSource.CLOSED) {
      source = new EventSource(query ? `/live?${query}` : "/live");
      source.addEventListener("failures", heard);
      // A browser gives up by itself where the answer is no stream: too many are open, or a login ran out.
      source.addEventListener("error", () => {
        if (source?.readyState === EventSource.CLOSED) setTimeout(listen, REFUSED_MS);
      });
    }
  }

  document.addEventListener("visibilitychange", listen);
  addEventListener("pageshow", listen);
  addEventListener("pagehide", () => { source?.close(); source = null; });
})();
