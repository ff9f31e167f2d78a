// What has the focus: its place among all that can have it, and what of it can be seen.
() => {
  const able = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, pre[tabindex='0']")]
    .filter((one) => one.getClientRects().length);
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return {
    place: able.indexOf(one),
    of: able.length,
    outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    what: one.outerHTML.slice(0, 100),
  };
}
