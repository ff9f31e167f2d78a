// What can be used, but has no name that a screen reader could say.
() => {
  const named = (one) => {
    const labels = [...(one.labels ?? [])].map((label) => label.textContent);
    const ids = (one.getAttribute("aria-labelledby") ?? "").split(" ");
    const by = ids.map((id) => document.getElementById(id)?.textContent ?? "");
    return [one.textContent, one.getAttribute("aria-label") ?? "", ...labels, ...by].join("").trim();
  };
  const used = document.querySelectorAll("a, button, input:not([type=hidden]), select, [tabindex='0']");
  return [...used].filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 100));
}
