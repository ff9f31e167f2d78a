// Follows what happens: marked regions are replaced by the server's own HTML, countdowns tick. Without it the page
// is the same, and shows what is new when it is loaded again.
"use strict";

(() => {
  const main = document.getElementById("main");
  const pulse = document.getElementById("pulse");

  const told = (text, off) => {
    if (pulse.textContent !== text) pulse.textContent = text;
    pulse.classList.toggle("off", off);
  };

  const busy = (region) => {
    if (region.contains(document.activeElement) && document.activeElement !== main) return true;
    const chosen = document.getSelection();
    return Boolean(chosen) && !chosen.isCollapsed && region.contains(chosen.anchorNode);
  };

  // What somebody has the focus in, or has marked, is not taken away: it follows once they are done.
  const waiting = new Map();
  const put = () => {
    for (const [name, html] of waiting) {
      const region = document.querySelector(`[data-region="${name}"]`);
      if (region && busy(region)) continue;
      waiting.delete(name);
      if (region && region.innerHTML !== html) region.innerHTML = html;
    }
  };

  const follow = (url) => {
    const source = new EventSource(url);
    source.addEventListener("regions", (event) => {
      for (const [name, html] of Object.entries(JSON.parse(event.data))) {
        if (/^[a-z]+$/.test(name)) waiting.set(name, html);
      }
      put();
      told("live", false);
    });
    source.addEventListener("trouble", () => told("a server does not answer; trying again", true));
    source.addEventListener("ended", () => {
      source.close();
      told("your session has ended: log in again", true);
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) {
        told("not connected; trying again", true);
        return;
      }
      told("not followed: load the page again", true);
    });
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
  };

  const span = (ms) => {
    if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
    const seconds = Math.floor(ms / 1000);
    for (const [length, unit, smaller, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (seconds < length) continue;
      const rest = Math.floor((seconds % length) / smaller);
      return `${Math.floor(seconds / length)} ${unit}` + (rest ? ` ${rest} ${small}` : "");
    }
    return `${seconds} s`;
  };

  window.setInterval(() => {
    put();
    for (const one of document.querySelectorAll("[data-until]")) {
      const left = Number(one.dataset.until) - Date.now();
      const text = left <= 0 ? "due" : (one.dataset.before ?? "") + span(left);
      if (one.textContent !== text) one.textContent = text;
    }
  }, 200);

  if (main.dataset.follow) follow(main.dataset.follow);
})();
