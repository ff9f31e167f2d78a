// What our own rules find wrong with a page for somebody who does not see it, or sees it on a small screen.
() => {
  const wrong = [];
  const say = (rule, one) => wrong.push(`${rule}: ${one ? one.outerHTML.slice(0, 120) : ""}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const only = (selector, rule) => { if (all(selector).length !== 1) say(`${rule} (${all(selector).length})`); };

  if (!document.documentElement.lang) say("no language");
  if (!document.title.trim()) say("no title");
  if (/user-scalable=no|maximum-scale/.test(document.querySelector("meta[name=viewport]").content)) say("no zoom");
  only("main", "one main");
  only("h1", "one h1");
  only(".skip", "one link to the content");
  if (!document.querySelector(document.querySelector(".skip").getAttribute("href"))) say("a skip link to nothing");
  only("[role=status]#pulse", "one place where news of the connection is told");

  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) say(`a heading skips a level (${level} to ${own})`, heading);
    if (!heading.textContent.trim()) say("an empty heading", heading);
    level = own;
  }

  const ids = all("[id]").map((one) => one.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) say(`an id twice: ${id}`);
  for (const name of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const one of all(`[${name}]`)) {
      for (const id of one.getAttribute(name).split(" ")) if (!document.getElementById(id)) say(`${name} of nothing`, one);
    }
  }

  for (const one of all("input:not([type=hidden]), select, textarea")) {
    if (![...(one.labels ?? [])].some((label) => label.textContent.trim())) say("a field without a label", one);
  }
  for (const one of all("[tabindex]")) if (one.tabIndex > 0) say("its own order of focus", one);
  for (const one of all("section")) if (!one.hasAttribute("aria-labelledby")) say("a section without a name", one);
  for (const one of all("img, svg")) if (!one.getAttribute("alt") && !one.getAttribute("aria-label")) say("a picture without words", one);
  for (const one of all("th")) if (!one.scope) say("a header of nothing", one);
  for (const one of all("table")) {
    if (!one.caption?.textContent.trim()) say("a table without a caption", one);
    const columns = one.querySelectorAll("thead th").length;
    for (const row of one.tBodies[0].rows) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (cells !== columns) say(`a row of ${cells} cells under ${columns} headers`, row);
    }
  }

  // the same words lead to the same place, and an act says what it is done to
  const leads = new Map();
  for (const one of all("main a[href]")) {
    const name = one.textContent.replace(/\s+/g, " ").trim();
    if (leads.has(name) && leads.get(name) !== one.href) say("the same words lead elsewhere", one);
    leads.set(name, one.href);
  }

  // fingers: 24 px (WCAG 2.2, 2.5.8); links within a text or a table's cell are as high as their line
  for (const one of all("button, .button, select, input:not([type=hidden]), nav a")) {
    const box = one.getBoundingClientRect();
    const own = one.type === "checkbox" ? one.closest("label").getBoundingClientRect() : box;
    if (box.width && (own.height < 24 || own.width < 24)) say(`${Math.round(own.width)} by ${Math.round(own.height)} px`, one);
  }

  // nothing sticks out of its card
  for (const card of all(".card, .notes")) {
    const right = card.getBoundingClientRect().right + 1;
    for (const one of card.querySelectorAll("*")) {
      if (one.closest(".hidden, .bars, caption, thead")) continue;
      for (const node of one.childNodes) {
        if (node.nodeType !== 3 || !node.textContent.trim()) continue;
        const text = document.createRange();
        text.selectNode(node);
        if (text.getBoundingClientRect().right > right) say("it sticks out of its card", one);
      }
    }
  }
  return wrong;
}
